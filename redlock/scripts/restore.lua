-- Give the key its old value back, if the swap reached it and the old holder has not released it since. It lives as long as it
-- would have.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the value of the swap
-- ARGV[2]  the old value
-- ARGV[3]  the grace of a waiter who gets the key, in milliseconds
-- Returns 1 when nothing of the swap is left, 0 when it had not reached the key.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local note = 'redquorum:adopt:' .. KEYS[1]
local left = redis.call('PTTL', KEYS[1])
if left > 0 and redis.pcall('GET', note) == ARGV[2] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', left)
else
  handOver(KEYS[1], ARGV[3])
end
redis.call('DEL', note)
return 1

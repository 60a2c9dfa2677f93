-- Give the key its old value back, if the swap reached it. It lives as long as it would have.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the value of the swap
-- ARGV[2]  the old value
-- Returns 1 when restored, 0 otherwise.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local left = redis.call('PTTL', KEYS[1])
if left > 0 then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', left)
end
return 1

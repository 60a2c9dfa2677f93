-- Give the key another value, if it has the one that the caller knows. It lives at least as long as before, so that a
-- swap that is undone has not shortened the life of the old holder's lock. A note beside the key keeps the old value, for
-- restore.lua; it is torn up when the old holder releases meanwhile.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the old value
-- ARGV[2]  the new value
-- ARGV[3]  time to live in milliseconds
-- ARGV[4]  with fencing: the caller's wall clock in microseconds
-- ARGV[5]  with fencing: how long the counter lives, in milliseconds
-- Returns 0 when the key is absent or has another value. When swapped: the fence as text, or 1 without fencing.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local fence = ARGV[4] and raiseFence(KEYS, ARGV[4], ARGV[5]) or 1
local ttl = math.max(tonumber(ARGV[3]), redis.call('PTTL', KEYS[1]))
redis.call('SET', 'redquorum:adopt:' .. KEYS[1], ARGV[1], 'PX', ttl)
redis.call('SET', KEYS[1], ARGV[2], 'PX', ttl)
return fence

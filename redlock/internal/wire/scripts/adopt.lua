-- requires list_life preferred fence number
-- Give the key another value, if it has the one that the caller knows. It lives at least as long as
-- before, so that nobody else gets it while the old holder may believe that it holds it. A note
-- keeps the old value for restore.lua, for as long as the key would have lived; it is deleted if
-- the old holder releases meanwhile. The note is named by the new value, so when a lock that is
-- being adopted is adopted again, the first note stays.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the old value
-- ARGV[2]  the new value
-- ARGV[3]  time to live in milliseconds
-- ARGV[4]  with fencing: the caller's wall clock in microseconds
-- ARGV[5]  with fencing: how long the counter lives, in milliseconds
-- Returns 0 when the key is absent or has another value. When swapped: the fence as text, or 1
-- without fencing.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  dropPreferred('redquorum:wait:' .. KEYS[1])
  return 0
end
local fence = ARGV[4] and raiseFence(KEYS, ARGV[4], ARGV[5]) or 1
if type(fence) == 'table' then
  return fence
end
local left, ttl = redis.call('PTTL', KEYS[1]), tonumber(ARGV[3])
if left < 0 then
  left = ttl -- it did not expire before, and now does
end
redis.call('SET', 'redquorum:adopt:' .. KEYS[1] .. ':' .. ARGV[2], ARGV[1], 'PX', math.max(left, 1))
redis.call('SET', KEYS[1], ARGV[2], 'PX', math.max(left, ttl))
keepNumber(KEYS[1], math.max(left, ttl))
return fence

-- requires shared fence raise_one
-- Bring the counter of a lock up to the token of a reader.
--
-- A counter that is at the token or past it is as good: the next writer's number is above it, and
-- that is all that a reader's token needs. So readers do not make each other give up. The reader is
-- compared so that a raise that arrives late does not lift the counter under a writer, whose own
-- raise would then fail.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the reader's value
-- ARGV[2]  the token
-- ARGV[3]  how long the counters live, in milliseconds
-- Returns 1 when the caller is a reader and the counter is at the token or past it. Otherwise
-- nothing was changed: 0, or -1 if the token is too far ahead (raise.lua).
local key, token, now = KEYS[1], tonumber(ARGV[2]), redis.call('TIME')
if redis.call('GET', key) ~= marker then
  return 0
end
dropDead(readersOf(key), true, millis())
if not redis.call('ZSCORE', readersOf(key), ARGV[1]) then
  return 0
end
local fence, failed = fenceAt(key)
if failed then
  return failed
elseif not fence then
  return 0
elseif fence >= token then
  return 1
end
local limit = limitAt(now)
if token > limit and (fence <= limit or token > fence + ARGV[3] * 1000) then
  return -1
end
redis.call('SET', 'redquorum:fence:' .. key, ARGV[2], 'PX', ARGV[3])
return 1

-- requires shared
-- Is the caller a reader of a key?
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the caller's value
-- Returns 1 if it is, 0 otherwise.
if redis.call('GET', KEYS[1]) ~= marker then
  return 0
end
local last = tonumber(redis.call('ZSCORE', readersOf(KEYS[1]), ARGV[1]) or 0)
return last >= millis() and last < 9007199254740992 and 1 or 0

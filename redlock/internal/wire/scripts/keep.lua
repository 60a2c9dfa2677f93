-- Give a key at least this time to live, if it has the value that the caller knows. It never
-- shortens: several callers may extend one lock, and each counts on the time that it was told.
--
-- KEYS[1]  a lock's key
-- ARGV[1]  the value
-- ARGV[2]  time to live in milliseconds
-- Returns 1 when the key has the value, 0 otherwise. An absent key stays absent: the release may
-- have come by another connection, and a late call must not bring the key back.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local left = redis.call('PTTL', KEYS[1])
if left >= 0 and left < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1

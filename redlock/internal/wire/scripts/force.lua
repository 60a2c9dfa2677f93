-- requires handover
-- Take a key from whoever holds it, and hand it over or delete it.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the grace of a waiter that gets the key, in milliseconds
-- Returns the value, of a long one the first 4,096 bytes, and how long it would have lived in
-- milliseconds (-1 when it did not expire); nothing when the key was free. A key that is no lock is
-- left alone: GET fails then.
local value = redis.call('GET', KEYS[1])
if not value then
  return {}
end
local left = redis.pcall('PTTL', KEYS[1])
handOver(KEYS[1], ARGV[1])
return { string.sub(value, 1, 4096), type(left) == 'number' and left or -1 }

-- Take a key from whoever holds it, and hand it over or delete it.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the grace of a waiter that gets the key, in milliseconds
-- Returns 1 when it was held, 0 when it was free. A key that is no lock is left alone: GET fails
-- then.
if not redis.call('GET', KEYS[1]) then
  return 0
end
handOver(KEYS[1], ARGV[1])
return 1

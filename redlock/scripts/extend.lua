-- Give the key a new time to live, if it is the caller's. An absent key is set again (healed): this node forgot it, and
-- from the next round on it counts as a holder like the others.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the value that the caller set
-- ARGV[2]  time to live in milliseconds
-- Returns 1 when extended, 2 when healed, 0 when the key is another's.
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
if not holder then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 2
end
return 0

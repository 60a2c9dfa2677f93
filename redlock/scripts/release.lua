-- Compare and delete: the key goes only if it still holds the caller's value.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the value that the caller set
-- Returns 1 when the key was deleted, 0 when it is absent or another's.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0

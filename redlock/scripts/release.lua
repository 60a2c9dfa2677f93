-- Compare and delete: a key goes only if it still holds the caller's value.
--
-- KEYS     the lock's keys
-- ARGV[1]  the value that the caller set
-- Returns 1 when all of them were deleted, 0 when one was absent or another's.
local deleted = 0
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then
    deleted = deleted + redis.call('DEL', key)
  end
end
return deleted == #KEYS and 1 or 0

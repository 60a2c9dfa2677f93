-- Compare and delete: a key goes only if it still holds the caller's value. A note beside it, that somebody is adopting it
-- from the caller (adopt.lua), goes too.
--
-- KEYS     the lock's keys
-- ARGV[1]  the value that the caller set
-- Returns 1 when all of them were deleted, 0 when one was absent or another's.
local deleted = 0
for _, key in ipairs(KEYS) do
  local holder = redis.call('GET', key)
  if holder == ARGV[1] then
    deleted = deleted + redis.call('DEL', key)
  elseif holder then
    local note = 'redquorum:adopt:' .. key
    if redis.pcall('GET', note) == ARGV[1] then
      redis.pcall('DEL', note)
    end
  end
end
return deleted == #KEYS and 1 or 0

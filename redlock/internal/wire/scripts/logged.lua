-- What is in the log, or in several?
--
-- KEYS     the logs
-- ARGV[1]  how many of the newest entries of each at most
-- Returns their entries, the newest of each first: 800 KiB of them, because a client takes 1 MiB. In
-- a key that is no log there are none.
local found, size = {}, 0
for _, key in ipairs(KEYS) do
  local entries = redis.pcall('ZRANGE', key, '-' .. ARGV[1], -1)
  if entries.err then
    if string.sub(entries.err, 1, 9) ~= 'WRONGTYPE' then
      return entries
    end
    entries = {}
  end
  for i = #entries, 1, -1 do
    size = size + #entries[i]
    if size > 819200 then
      break
    end
    found[#found + 1] = entries[i]
  end
end
return found

-- What is in the log?
--
-- KEYS[1]  the log
-- ARGV[1]  how many of the newest entries at most
-- Returns its entries, the oldest first: the newest 800 KiB of them, because a client takes 1 MiB.
-- In a key that is no log there are none.
local entries = redis.pcall('ZRANGE', KEYS[1], '-' .. ARGV[1], -1)
if entries.err then
  return string.sub(entries.err, 1, 9) == 'WRONGTYPE' and {} or entries
end
local first, size = #entries + 1, 0
for i = #entries, 1, -1 do
  size = size + #entries[i]
  if size > 819200 then
    break
  end
  first = i
end
return { unpack(entries, first) }

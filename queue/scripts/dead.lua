-- Return dead letters, newest first.
--
-- KEYS     as in change.lua
-- ARGV[1]  how many at most
-- ARGV[2]  how many bytes they may have in total
-- Returns an id and a record for each; the score of the record is the time of the death.
local dead, told, left = found('ZRANGE', KEYS[6], -tonumber(ARGV[1]), -1, 'WITHSCORES') or {}, {}, tonumber(ARGV[2])
for i = #dead - 1, 1, -2 do
  local id, score = dead[i], dead[i + 1]
  local text = textOf(score, read(KEYS[7], id))
  left = left - #id - #text
  if left < 0 then
    break
  end
  told[#told + 1], told[#told + 2] = id, text
end
return told

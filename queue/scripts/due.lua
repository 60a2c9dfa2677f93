-- Return the due tasks, oldest first.
--
-- KEYS     as in change.lua
-- ARGV[1]  how many at most
-- ARGV[2]  how many bytes the ids may have in total; the first is returned in any case
-- ARGV[3]  the fence of a caller that will change the tasks; missing for one that only reads
-- Returns the time in microseconds, and an id and a score for each task; nil if the caller is
-- stale.
if ARGV[3] then
  runWhenFull()
  if isStale(ARGV[3]) then
    return nil
  end
end
local now = nowMicros()
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', scoreOf(now), 'WITHSCORES', 'LIMIT', 0, ARGV[1])
local told, left = { string.format('%.0f', now) }, tonumber(ARGV[2])
for i = 1, #due, 2 do
  left = left - #due[i]
  if left < 0 and i > 1 then
    break
  end
  told[i + 1], told[i + 2] = due[i], due[i + 1]
end
return told

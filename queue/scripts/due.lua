-- Return the due tasks, oldest first, without what others wrote that is no task.
--
-- KEYS     as in change.lua
-- ARGV[1]  how many at most
-- ARGV[2]  how many bytes the ids and payloads may have in total
-- ARGV[3]  how many members of the range to pass over
-- ARGV[4]  the fence of a caller that will change the tasks; missing for one that only reads
-- Returns the time in microseconds, how many members were found that are no tasks, 1 if the caller
-- should ask for more (behind them), and for each task its id and its score, behind which are the
-- attempts and the payload if there are any; nil if the caller is stale. With a fence, what is no
-- task moves to the end of the queue, where it is never due.
if ARGV[4] then
  runWhenFull()
  if isStale(ARGV[4]) then
    return nil
  end
end
local most, left, at = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local now = nowMicros()
local told, strange, full = { string.format('%.0f', now), 0, 0 }, 0, false
-- Page by page: others' members may be large. Without end it would hold up the store.
for _ = 1, 100 do
  local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', scoreOf(now), 'WITHSCORES', 'LIMIT', at, 100)
  for i = 1, #due, 2 do
    local id = due[i]
    if #id < 1 or #id > 1024 then -- as in queue.go
      strange = strange + 1
      if ARGV[4] then
        redis.call('ZADD', KEYS[1], '+inf', id)
        at = at - 1
      end
    else
      full = full or #told == 3 + 2 * most
      if not full then
        local score, record = due[i + 1], recordOf(id, due[i + 1])
        left = left - #id - #record.payload
        full = left < 0
        if not full and (record.attempts > 0 or record.payload ~= '') then
          score = string.format('%s %.0f ', score, record.attempts) .. record.payload
        end
        if not full then
          told[#told + 1], told[#told + 2] = id, score
        end
      end
    end
  end
  at = at + #due / 2
  if full or #due < 200 then
    told[2] = strange
    return told
  end
end
told[2], told[3] = strange, 1
return told

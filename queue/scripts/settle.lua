-- Remove or move each task if its score is still the one that the caller saw: otherwise somebody
-- has enqueued it again since, or taken it.
--
-- KEYS     as in change.lua
-- ARGV[1]  the caller's fence
-- ARGV[2]  and the rest, four for each task: its id, the score that was seen, what to do, and a text
--          'remove'  it is done
--          '=score'  lease it until then, which is an attempt
--          '-score'  it goes back to where it was, and had no attempt
--          '+delay'  it is due again after so many microseconds; the text says why it failed
--          'bury'    it becomes a dead letter; the text says why it failed
-- Returns a text with a character for each task: 0 if it did not have that score, 2 if the oldest
-- dead letter was dropped for it, and otherwise 1; nil if the caller is stale.
runWhenFull()
return once(ARGV[1], function()
  reclaim()
  local now, done = nowMicros(), {}
  redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', scoreOf(now)) -- of workers that died

  -- move gives an entry a new score, and its record first.
  local function move(id, score, record)
    keep(id, score, record)
    redis.call('ZADD', KEYS[1], score, id)
  end

  local function bury(id, record)
    redis.call('HSET', KEYS[7], id, textOf(scoreOf(now), record))
    redis.call('ZADD', KEYS[6], scoreOf(now), id)
    if redis.call('ZCARD', KEYS[6]) <= 10000 then -- as in queue.go
      return '1'
    end
    local oldest = redis.call('ZRANGE', KEYS[6], 0, 0)[1]
    redis.call('ZREM', KEYS[6], oldest)
    redis.call('HDEL', KEYS[7], oldest)
    return '2'
  end

  local function settle(id, score, what, text)
    local record, rest = recordOf(id, score), string.sub(what, 2)
    local kind = string.sub(what, 1, 1)
    if kind == '=' then
      record.attempts = record.attempts + 1
      redis.call('ZADD', KEYS[5], rest, id)
      move(id, rest, record)
      return '1'
    end
    redis.call('ZREM', KEYS[5], id)
    if kind == '-' then
      record.attempts = math.max(record.attempts - 1, 0)
      move(id, rest, record)
      return '1'
    end
    local told = '1'
    if text ~= '' then -- in front of the earlier ones, 4 KiB in all
      local head = string.format('%.0f %.0f %.0f\n', now, record.attempts, #text)
      record.errors = string.sub(head .. text .. record.errors, 1, 4096)
    end
    if kind == '+' then
      move(id, scoreOf(now + tonumber(rest)), record)
      return '1'
    elseif kind == 'b' then
      told = bury(id, record)
    end
    redis.call('ZREM', KEYS[1], id)
    redis.call('HDEL', KEYS[4], id)
    return told
  end

  for i = 2, #ARGV, 4 do
    local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
    if score and tonumber(score) == tonumber(ARGV[i + 1]) then
      done[#done + 1] = settle(ARGV[i], score, ARGV[i + 2], ARGV[i + 3])
    else
      done[#done + 1] = '0'
    end
  end
  return table.concat(done)
end)

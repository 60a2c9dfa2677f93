-- What is kept beside the entries of a queue, of tasks that have an attempt or a payload:
--
-- KEYS[4]  by id, the records of tasks
-- KEYS[5]  the tasks that run, by the ends of their leases
-- KEYS[6]  the dead letters, by the time of their death
-- KEYS[7]  by id, the records of dead letters
--
-- A record is a line with a score, the attempts, and a size; so many bytes of errors; and the
-- payload. The score is what the entry got with the attempts. An entry that has another one was
-- enqueued again since: its attempts begin anew, and it keeps its payload.
--
-- A script may end at any command, because a user may not run that. So what is kept is written
-- before what it replaces is removed: no task is lost then, but its attempts may begin anew.
local function read(key, id)
  local text = found('HGET', key, id) or ''
  local score, attempts, size, at = string.match(text, '^(%S+) (%d+) (%d+)\n()')
  if not score then
    return { attempts = 0, errors = '', payload = '' }
  end
  size = tonumber(size)
  return {
    score = tonumber(score),
    attempts = tonumber(attempts),
    errors = string.sub(text, at, at + size - 1),
    payload = string.sub(text, at + size, at + size + 65535), -- as in queue.go
  }
end

-- The record of an entry that has this score.
local function recordOf(id, score)
  local record = read(KEYS[4], id)
  if record.score ~= tonumber(score) then
    record.attempts, record.errors = 0, ''
  end
  return record
end

local function textOf(score, record)
  return string.format('%s %.0f %.0f\n', score, record.attempts, #record.errors) .. record.errors .. record.payload
end

-- Keep the record of an entry that gets this score, if it says anything.
local function keep(id, score, record)
  if record.attempts > 0 or record.payload ~= '' then
    redis.call('HSET', KEYS[4], id, textOf(score, record))
  else
    redis.call('HDEL', KEYS[4], id)
  end
end

-- Remove what others wrote in the place of a key, if it has another type: no change may stop at it.
-- The newest fence is overwritten in the same way.
local function reclaim()
  for i, count in pairs({ [4] = 'HLEN', [5] = 'ZCARD', [6] = 'ZCARD', [7] = 'HLEN' }) do
    if not found(count, KEYS[i]) then
      redis.call('DEL', KEYS[i])
    end
  end
end

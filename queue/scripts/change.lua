-- What every change of a queue begins and ends with. The keys are the same everywhere:
--
-- KEYS[1]  the queue: a sorted set of task ids by due time
-- KEYS[2]  the newest fence seen here
-- KEYS[3]  the fence of the last change, followed by its answer
-- KEYS[4]  and the rest: see record.lua
local function headOf()
  return tonumber(redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2])
end

-- A fence as a number; nil if it is not one.
local function number(fence)
  local value = type(fence) == 'string' and tonumber(fence)
  return value and value < 9007199254740992 and value or nil
end

-- What a command returns, whatever others wrote at its key; false if that has another type, or if
-- there is nothing.
local function found(...)
  local value = redis.pcall(...)
  if type(value) ~= 'table' or not value.err then
    return value
  end
  if string.sub(value.err, 1, 9) == 'WRONGTYPE' then
    return false
  end
  return redis.call(...) -- fails with the server's error
end

-- Remember the newest fence, and report whether the caller's is older: then another holder has had
-- the lock since, and the caller must not change anything. Fences are whole numbers below 2^53,
-- exact in Lua's doubles; they are kept as the caller wrote them. If somebody wrote something else,
-- the fence of the last change counts.
local function isStale(fence)
  local newest = found('GET', KEYS[2])
  local value = number(newest) or number(string.match(found('GET', KEYS[3]) or '', '^%d+'))
  if value and value > tonumber(fence) then
    return true
  end
  if newest ~= fence then
    redis.call('SET', KEYS[2], fence)
  end
  return false
end

-- Let what follows run at a store that is over its maxmemory: this script makes the queue shorter,
-- or leaves it as long as it is, and otherwise nobody could empty it. A script is refused memory
-- only before its first write, so it begins with one that asks for none and changes nothing: no
-- task has an empty id.
local function runWhenFull()
  redis.call('ZREM', KEYS[1], '')
end

-- Run a change once per fence. A caller whose answer was lost repeats the call with the same fence,
-- and gets the first answer: nobody else has that fence, and while it is the newest, nobody else
-- has changed anything since. change returns a text. A stale caller gets nil.
local function once(fence, change)
  local last = found('GET', KEYS[3])
  if last and string.sub(last, 1, #fence + 1) == fence .. ' ' then
    return string.sub(last, #fence + 2)
  end
  local before = headOf() -- fails before anything is changed if the key is not a queue
  if isStale(fence) then
    return nil
  end
  local answer = change()
  redis.call('SET', KEYS[3], fence .. ' ' .. answer, 'PX', 60000) -- longer than any caller retries
  local after = headOf()
  if after and (not before or after < before) then
    -- Tell the waiters that there is an earlier head. An ACL may forbid this: they poll, too.
    redis.pcall('PUBLISH', 'redquorum:wake:' .. KEYS[1], 'earlier')
  end
  return answer
end

-- This server's clock in microseconds since 1970.
local function nowMicros()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- A score: seconds, with six decimals. The division is rounded to the nearest double, which is less
-- than half a microsecond off.
local function scoreOf(micros)
  return string.format('%.6f', micros / 1000000)
end

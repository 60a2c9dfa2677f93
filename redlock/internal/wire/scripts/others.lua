-- Clients of other libraries do not queue: they try to set a key now and then, and leave no trace
-- while it is taken. To be served beside our waiters, they have a place on the list of a key as if
-- they were one waiter: the member "others" if one of them was seen to hold the key, "anyone" if
-- none was. Its score is the time at which their turn comes. The turn begins when it is the oldest;
-- the release then leaves the key free, and our waiters do not take it for that long (wait.lua).
-- Leaving a key free is a plain release, so exclusion does not depend on any of this.
-- redquorum:others:<key> holds when their turn began, 0 while it is ours, and the pause in
-- milliseconds before the next turn if nobody is seen in this one, 0 if somebody was.
-- In microseconds; shortShare in microseconds per millisecond.
local turnLength, seenTurn, shortTurn, shortShare, longestTurn = 300000, 250000, 120000, 25, 1000000

local turnPause, longestPause = 1000, 60000 -- milliseconds

-- micros returns this server's time in microseconds, or false if TIME is forbidden.
local function micros()
  local time = redis.pcall('TIME')
  return not time.err and time[1] * 1000000 + time[2]
end

local function readTurn(key)
  local text = redis.pcall('GET', 'redquorum:others:' .. key)
  local began, pause = string.match(type(text) == 'string' and text or '', '^(%d+) (%d+)$')
  return tonumber(began) or 0, tonumber(pause) or turnPause
end

local function writeTurn(key, began, pause)
  redis.pcall('SET', 'redquorum:others:' .. key, string.format('%.0f %.0f', began, pause), 'PX', 2 * pause + 10000)
end

-- isForeign reports whether a value is another library's, by its form: ours begin with 26
-- characters of base32, followed by an owner or nothing. No vote and no release depends on it.
local function isForeign(value)
  local random = string.match(string.sub(value, 1, 27) .. '|', '^([A-Z2-7]+)|')
  return not random or #random ~= 26
end

-- someWait reports whether one of our waiters is on a list. A list with only the place of the
-- others counts as empty.
local function someWait(list)
  local length = redis.pcall('ZCARD', list)
  for _, place in ipairs({ 'others', 'anyone' }) do
    if type(length) == 'number' and type(redis.pcall('ZSCORE', list, place)) == 'string' then
      length = length - 1
    end
  end
  return length ~= 0
end

-- beginTurn is called when the others are the oldest on a list, and have been taken from it. It
-- returns 3 if the key must be left free for them, 1 and how long the list lives if it is free for
-- all, and nil if they are to be ignored.
local function beginTurn(key, who, due)
  local now, list = micros(), 'redquorum:wait:' .. key
  local oldest = redis.pcall('ZRANGE', list, 0, 0)[1]
  if not now or (not oldest and who == 'anyone') then
    return nil -- nobody waits behind them: the key is free often enough
  end
  if now < tonumber(due) then -- no waiter of ours, and we may have it for as long as they had it
    local left = math.min(math.ceil((due - now) / 1000) + 1000, listLife)
    redis.pcall('ZADD', list, due, who)
    redis.pcall('PEXPIRE', list, left)
    return 1, left
  end
  local began, pause = now, turnPause
  redis.pcall('ZREM', list, 'others', 'anyone')
  if who == 'anyone' then
    local _, last = readTurn(key)
    last = math.max(last, turnPause)
    began, pause = now - turnLength + math.min(last * shortShare, shortTurn), math.min(2 * last, longestPause)
  end
  writeTurn(key, began, pause)
  if oldest then -- it must ask when their turn is over
    askAgain(oldest)
  end
  return 3
end

-- seeOther notes that a client of another library holds the key.
local function seeOther(key, now)
  local began = readTurn(key)
  writeTurn(key, began == 0 and now or began, 0)
end

-- endTurn is called for a free key that one of our waiters is about to take. It returns for how
-- many milliseconds it must not yet, or nil. Afterwards the key is ours for about as long as it was
-- theirs.
local function endTurn(key)
  local began, pause = readTurn(key)
  local now = began ~= 0 and micros()
  if not now or began > now then -- the clock was set back, or this library did not write it
    return nil
  end
  local had = now - began
  local least = pause == 0 and seenTurn or turnLength
  if had < least then
    return math.ceil((least - had) / 1000)
  end
  local list = 'redquorum:wait:' .. key
  redis.pcall('ZREM', list, 'anyone')
  if pause == 0 then
    redis.pcall('ZADD', list, string.format('%.0f', now + math.min(had, longestTurn)), 'others')
  else
    redis.pcall('ZADD', list, string.format('%.0f', now + pause * 1000), 'anyone')
  end
  redis.pcall('PEXPIRE', list, listLife)
  redis.pcall('SET', 'redquorum:waits:' .. key, '', 'PX', listLife)
  writeTurn(key, 0, pause)
  return nil
end

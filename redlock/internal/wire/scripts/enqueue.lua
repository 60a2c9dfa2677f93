-- enqueue puts a waiter on the wait list of a key, which is ordered by when each began to wait, and
-- returns 1 if it is there, else 0. Others is the place of other libraries' clients (others.lua).
local function enqueue(key, place, now, waited, most, others)
  local list, since = 'redquorum:wait:' .. key, string.format('%.0f', now - waited)
  local function add()
    if others == '' then
      return redis.pcall('ZADD', list, 'NX', since, place)
    end
    return redis.pcall('ZADD', list, 'NX', since, place, string.format('%.0f', now + turnPause * 1000), others)
  end
  local added = add()
  if type(added) == 'table' and string.sub(added.err, 1, 9) == 'WRONGTYPE' then
    -- Not written by this library, and nobody can wait there.
    redis.pcall('DEL', list)
    added = add()
  end
  local length = added ~= 0 and redis.pcall('ZCARD', list)
  if type(length) == 'number' and length > tonumber(most) then
    redis.pcall('ZREM', list, place)
  end
  redis.pcall('PEXPIRE', list, listLife)
  if type(redis.pcall('ZSCORE', list, place)) ~= 'string' then
    return 0
  end
  redis.pcall('SET', 'redquorum:waits:' .. key, '', 'PX', listLife) -- for free.lua
  return 1
end

-- polls reports whether a waiter must poll for the moment in which a key is free: the oldest waiter
-- that listens does, and so does a caller that is on no list.
local function polls(key, place, waits)
  local list = 'redquorum:wait:' .. key
  for _, older in ipairs(waits == 1 and redis.pcall('ZRANGE', list, 0, 15) or {}) do
    local process = readPlace(older)
    if older == place then
      return true
    elseif process and listeners(process) ~= 0 then
      return false
    elseif process and not isPreferred(older) then
      redis.pcall('ZREM', list, older)
    end
  end
  return waits == 0
end

-- refusal is the answer to a waiter, see wait.lua. Foreign is the value of a holder that is not
-- ours, or nil. If left is given, the key is free, and the turn of other libraries' clients for so
-- many milliseconds.
local function refusal(key, at, place, waits, foreign, left)
  if left then
    return { 0, at, left, waits, polls(key, place, waits) and -1 or -2 }
  elseif foreign then
    local name = tonumber(string.sub(redis.sha1hex(string.sub(foreign, 1, 64)), 1, 8), 16) + 1
    return { 0, at, redis.call('PTTL', key), waits, polls(key, place, waits) and name or 0 }
  end
  return { 0, at, redis.call('PTTL', key), waits }
end

-- Readers hold a key together. Beside the key there is a sorted set of them: the score of a member
-- is the millisecond of this server's time in which it is last alive. While one is, the key is the
-- marker, which expires with the member that lives longest. So every SET NX respects readers, and
-- no compare-and-delete removes what they hold: the marker is nobody's value. It has the form of
-- ours, because the waiters behind it need not take it for another library's (others.lua).
local marker = 'READERSHOLDTHISLOCKTOGETHE|readers'

local function readersOf(key)
  return 'redquorum:readers:' .. key
end

-- intentOf is the key in which a writer that waits announces itself (announce.lua).
local function intentOf(key)
  return 'redquorum:intent:' .. key
end

-- intentLeft returns for how many milliseconds a writer still keeps new readers out of a key, or
-- nothing. An intent lives for seconds; one without an end, or with a late one, is not this
-- library's, and would keep readers out for ever.
local function intentLeft(key)
  local left = redis.pcall('PTTL', intentOf(key))
  if type(left) == 'table' then -- the user may not ask: as if it had just begun
    return redis.call('EXISTS', intentOf(key)) == 1 and 3000 or nil
  end
  if left == -1 or left > 60000 then
    redis.pcall('DEL', intentOf(key))
    return nil
  end
  return left >= 0 and left or nil
end

-- withdraw removes the intent of a writer, and nobody else's.
local function withdraw(key, value)
  if redis.pcall('GET', intentOf(key)) == value then
    redis.pcall('DEL', intentOf(key))
  end
end

local function exact(number)
  return string.format('%.0f', tonumber(number))
end

-- millis returns this server's time in milliseconds, rounded down like that of Redis.
local function millis()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- dropDead drops the members that have expired. If readers do not hold the key, it drops all: the
-- key was deleted, may have been a writer's since, and the next marker must not bring them back. A
-- set that others have overwritten starts anew, and a member without an end, or with one a month
-- from now, is not this library's: the longest time to live is a day.
local function dropDead(readers, held, now)
  local dropped = held and redis.pcall('ZREMRANGEBYSCORE', readers, '-inf', '(' .. exact(now))
  if not held or type(dropped) == 'table' and string.sub(dropped.err, 1, 9) == 'WRONGTYPE' then
    redis.call('DEL', readers)
  end
  -- No time. Without a set, too: whoever may not do this does not become a reader.
  redis.call('ZREMRANGEBYSCORE', readers, exact(now + 2592000000), '+inf')
end

-- mark makes the key the marker until the longest member expires, and returns when that is; false
-- if there is none.
-- A member is alive until the end of the millisecond that is its score, and the key a millisecond
-- longer: in that of its own end, a server deletes a key at once. Both are numbers on the same
-- clock. With a time to live, which is a difference, rounding and the time since the server read its
-- clock would let a member outlive the key. The set has an end, too, so that nothing stays behind.
-- It comes first: where PEXPIREAT is forbidden, no key is set, and no set without an end is left
-- beside it.
local function markLongest(key, readers, held, now)
  local last = redis.call('ZRANGE', readers, -1, -1, 'WITHSCORES')[2]
  if not last then
    return false
  end
  local after = exact(last + 1)
  redis.call('PEXPIREAT', readers, after)
  if not held then -- never a moment without an end
    redis.call('SET', key, marker, 'PX', exact(last - now + 1000))
  end
  redis.call('PEXPIREAT', key, after)
  return last
end

local function mark(key, readers, held, now)
  local done, last = pcall(markLongest, key, readers, held, now)
  if not done then
    if not held then
      redis.pcall('DEL', readers)
    end
    error(last, 0)
  end
  return last
end

-- serveReader gives a waiting reader its vote for the grace. A reader that has more keeps it: one
-- that was healed here while its place on the list was forgotten.
local function serveReader(key, value, graceMillis, held)
  local readers, now = readersOf(key), millis()
  dropDead(readers, held, now)
  local last = redis.call('ZSCORE', readers, value)
  redis.call('ZADD', readers, exact(math.max(tonumber(last or 0), now + graceMillis)), value)
  mark(key, readers, held, now)
end

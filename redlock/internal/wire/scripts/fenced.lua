local call = redis.pcall

-- timeNow returns this server's time in microseconds, or false if TIME is forbidden.
local function timeNow()
  local time = call('TIME')
  return not time.err and time[1] * 1000000 + time[2]
end

-- stepFence raises the fencing counter of a key to the caller's wall clock, if that is right and
-- ahead of the counter, and reports whether it did. If SET knows GET (Redis 6.2), that takes one
-- step. If TIME is forbidden, raiseFence reports it.
local function stepFence(key, ts, lifeMillis, now)
  local step = tonumber(ts)
  if not now or step > now + 10000000 or step < now - 10000000 then
    return false
  end
  local counter = 'redquorum:fence:' .. key
  local last = call('SET', counter, ts, 'PX', lifeMillis, 'GET')
  if not last then
    return true
  end
  if type(last) == 'string' then
    if (tonumber(last) or step) < step then
      return true
    end
    call('SET', counter, last, 'PX', lifeMillis) -- as it was; a server that took one SET takes it
  end
  return false
end

-- stepFence raises the fencing counter of a key to the caller's wall clock, if that is right and
-- ahead of the counter, and reports whether it did. If SET knows GET (Redis 6.2), that takes one
-- step. If TIME is forbidden, raiseFence reports it.
local function stepFence(key, ts, lifeMillis, time)
  local ahead = time[1] and ts - time[1] * 1000000 - time[2]
  if not ahead or ahead > 10000000 or ahead < -10000000 then
    return false
  end
  local counter = 'redquorum:fence:' .. key
  local last = redis.pcall('SET', counter, ts, 'PX', lifeMillis, 'GET')
  if not last then
    return true
  end
  if type(last) == 'string' then
    if (tonumber(last) or math.huge) < tonumber(ts) then
      return true
    end
    redis.pcall('SET', counter, last, 'PX', lifeMillis) -- as it was
  end
  return false
end

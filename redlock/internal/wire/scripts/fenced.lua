-- The common case first: one free key, and a clock that is right and ahead of the counter.
-- (acquire.lua begins with this.) If SET knows GET (Redis 6.2), the counter takes one step.
local mine = not KEYS[2]
if mine then
  if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return 0
  end
  if not ARGV[3] then
    return 1
  end
  local time = redis.pcall('TIME')
  -- If TIME is forbidden, raiseFence reports it.
  local ahead = time[1] and ARGV[3] - time[1] * 1000000 - time[2]
  if ahead and ahead <= 10000000 and ahead >= -10000000 then
    local counter = 'redquorum:fence:' .. KEYS[1]
    local last = redis.pcall('SET', counter, ARGV[3], 'PX', ARGV[4], 'GET')
    if not last then
      return ARGV[3]
    end
    if type(last) == 'string' then
      if (tonumber(last) or math.huge) < tonumber(ARGV[3]) then
        return ARGV[3]
      end
      redis.call('SET', counter, last, 'PX', ARGV[4]) -- as it was
    end
  end
end

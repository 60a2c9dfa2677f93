-- lasting returns for how many milliseconds a key lives that the caller takes: not for less than it
-- does now, if it is the caller's already. Somebody who knows the value may have extended it
-- (keep.lua) since it was handed over, and counts on that.
local function lasting(key, ttlMillis)
  return math.max(redis.call('PTTL', key), tonumber(ttlMillis))
end

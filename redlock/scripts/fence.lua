-- Raise the fencing counters of keys above all that was granted before, to one number: the caller's wall clock in microseconds, where
-- no counter is ahead of it. A caller whose clock is off is held within 10 s of this server's, so that one wrong clock does not
-- carry the counters away: twice that is less than a node that lost its counters stays out. They expire long after the last lock
-- that they fence.
--
-- Returns the number as text: Lua's numbers are doubles, exact here (below 2^53) but printed rounded.
local function raiseFence(keys, ts, lifeMillis)
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local fence = math.min(math.max(tonumber(ts), now - 10000000), now + 10000000)
  for _, key in ipairs(keys) do
    local last = redis.call('GET', 'redquorum:fence:' .. key)
    if last then
      fence = math.max(fence, tonumber(last) + 1)
    end
  end
  if fence >= 9007199254740992 then
    error('a fencing counter is at 2^53, where one more is the same number: redquorum:fence:' .. keys[1])
  end
  local text = string.format('%.0f', fence)
  for _, key in ipairs(keys) do
    redis.call('SET', 'redquorum:fence:' .. key, text, 'PX', lifeMillis)
  end
  return text
end

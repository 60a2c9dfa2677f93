-- A node's fencing counter of a key as a number; 0 if there is none; nil if somebody wrote
-- something else: text, another type, or a number so large that adding one does not change it as a
-- double. If the counter may not be read, nil and the error.
local function fenceAt(key)
  local last = redis.pcall('GET', 'redquorum:fence:' .. key)
  if type(last) == 'table' and string.sub(last.err, 1, 9) ~= 'WRONGTYPE' then
    return nil, last
  end
  if not last then
    return 0
  end
  local fence = type(last) == 'string' and tonumber(last)
  if fence and fence < 9007199254740990 then
    return math.max(math.floor(fence), 0)
  end
end

-- Raise the fencing counters of keys above everything that was granted before, to one number: the
-- caller's wall clock in microseconds, unless a counter is ahead of it. The caller's clock is
-- clamped to within 10 s of this server's, so that one wrong clock does not carry the counters
-- away. They expire long after the last lock that they fence.
--
-- A counter that cannot be read was overwritten, and its value is lost. It starts again a minute
-- ahead of the clock: above everything that was granted here before (raise.lua), and too far ahead
-- of the other nodes for a token until the clock gets there.
--
-- With a step of 0, for readers, the number need not be new: it is a counter's if that is ahead.
--
-- Returns the number as text: Lua's numbers are doubles, exact here (below 2^53) but printed
-- rounded. Or an error; then the caller must do nothing more. Counters that were raised before it
-- do no harm.
local function raiseFence(keys, ts, lifeMillis, step)
  local time = redis.pcall('TIME')
  if time.err then
    return time
  end
  local now = time[1] * 1000000 + time[2]
  local fence = math.min(math.max(tonumber(ts), now - 10000000), now + 10000000)
  for _, key in ipairs(keys) do
    local last, failed = fenceAt(key)
    if failed then
      return failed
    end
    fence = math.max(fence, (last or now + 60000000) + (step or 1))
  end
  if fence >= 9007199254740992 then
    return redis.error_reply('ERR the clock is past 2^53 microseconds, where adding one changes nothing')
  end
  local text = string.format('%.0f', fence)
  for _, key in ipairs(keys) do
    local done = redis.pcall('SET', 'redquorum:fence:' .. key, text, 'PX', lifeMillis)
    if done.err then
      return done
    end
  end
  return text
end

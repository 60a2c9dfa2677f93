-- Give a key that is the caller's to the oldest of those who wait for it, or delete it. The one who gets it owns this node's
-- vote before anyone else can ask; he has the grace to confirm it (wait.lua), and if he sleeps that long, it is free.
-- Waiters whose process does not listen any more are dropped: a few at a time, the others poll. This runs for those who may
-- not publish or touch the list, too: then it deletes.
--
-- PUBLISH counts those who listen to patterns, too: a monitor, who would keep a dead waiter alive. PUBSUB NUMSUB does not; where
-- it is forbidden, the count of PUBLISH must do.
--
-- Returns true when the key was handed over.
local function publish(process, text)
  local channel = 'redquorum:wake:' .. process
  local listening = redis.pcall('PUBSUB', 'NUMSUB', channel)
  return listening[2] ~= 0 and redis.pcall('PUBLISH', channel, text)
end

local function handOver(key, graceMillis)
  local list, sign = 'redquorum:wait:' .. key, 'redquorum:waits:' .. key
  local handed = false
  for _ = 1, 64 do
    local oldest = redis.pcall('ZPOPMIN', list)
    local waiter = oldest[1]
    if not waiter then
      break
    end
    local colon = string.find(waiter, ':', 1, true) or 0 -- none: somebody else wrote it
    local process, value = string.sub(waiter, 1, colon - 1), string.sub(waiter, colon + 1)
    local heard = colon > 1 and publish(process, value)
    if heard ~= 0 and type(heard) == 'number' then
      local given = redis.pcall('SET', key, value, 'PX', graceMillis)
      if given.ok then
        handed = true
        break
      end
    end
  end
  if not handed then
    redis.call('DEL', key)
  end
  -- The sign that somebody waits, which free.lua looks for, goes with the last one. (It lives as long as the list: waitListLife.)
  if redis.pcall('EXISTS', list) == 1 then
    redis.pcall('SET', sign, '', 'PX', 180000)
  else
    redis.pcall('DEL', sign)
  end
  return handed
end

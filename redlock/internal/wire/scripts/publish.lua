-- Send a text to a process, and return how many subscribers received it.
--
-- PUBLISH also counts clients that are subscribed to patterns: a monitor would keep a dead waiter
-- alive. PUBSUB NUMSUB does not count them; if it is forbidden, the count of PUBLISH must do.
local function listeners(process)
  return redis.pcall('PUBSUB', 'NUMSUB', 'redquorum:wake:' .. process)[2]
end

local function publish(process, text)
  return listeners(process) ~= 0 and redis.pcall('PUBLISH', 'redquorum:wake:' .. process, text)
end

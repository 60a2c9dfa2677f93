-- Send a text to a process, and return how many heard it.
--
-- PUBLISH counts those who listen to patterns, too: a monitor, who would keep a dead waiter alive.
-- PUBSUB NUMSUB does not; where it is forbidden, the count of PUBLISH must do.
local function listeners(process)
  return redis.pcall('PUBSUB', 'NUMSUB', 'redquorum:wake:' .. process)[2]
end

local function publish(process, text)
  return listeners(process) ~= 0 and redis.pcall('PUBLISH', 'redquorum:wake:' .. process, text)
end

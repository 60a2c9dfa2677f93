-- readPlace reads a place on a wait list: the waiter's process and value, and whether it waits to
-- read; then the place begins with a plus sign. The process is nil or false in what this library
-- did not write.
local function readPlace(place)
  local sign, process, value = string.match(place, '^(%+?)([^:]*):(.*)$')
  return process ~= '' and process, value, sign == '+'
end

-- askAgain makes a waiter ask again, and reports whether it listens.
local function askAgain(place)
  local process, value = readPlace(place)
  local receivers = process and publish(process, '?' .. value)
  return type(receivers) == 'number' and receivers > 0
end

-- wakeOldest makes the oldest waiter that listens ask again: the key ends before the time that it
-- was told.
local function wakeOldest(key)
  for _, place in ipairs(redis.pcall('ZRANGE', 'redquorum:wait:' .. key, 0, 15)) do
    if askAgain(place) then
      break
    end
  end
end

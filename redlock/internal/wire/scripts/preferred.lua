-- A holder whose extension this node refused has a place on the wait list before all waiters
-- (prefer.lua): its own, as place.lua reads it, behind an equals sign. The score is below zero: the
-- millisecond of this server's time in which the holder's time to live ends, times 1,024, and for a
-- permit the slot, counted from 0.

local function isPreferred(place)
  return string.byte(place) == 61
end

-- leave takes the place of a waiter from a list, and the one that it has as a holder. It reports
-- whether one of them was there.
local function leave(list, place)
  local removed = redis.pcall('ZREM', list, place, '=' .. place)
  return type(removed) == 'number' and removed > 0
end

-- dropPreferred takes the places of holders from a list: one of them is no longer to get the vote.
-- The others come back with their next extension.
local function dropPreferred(list)
  redis.pcall('ZREMRANGEBYSCORE', list, '-inf', '(0')
end

-- preferredLeft returns for how many milliseconds a holder keeps its place, no longer than the list
-- lives, and its slot; nothing once that has passed, or without the right to TIME.
local function preferredLeft(score)
  local n, time = -tonumber(score), redis.pcall('TIME')
  local left = not time.err and math.floor(n / 1024) - time[1] * 1000 - math.floor(time[2] / 1000)
  if left and left > 0 then
    return math.min(left, listLife), n % 1024 + 1
  end
end

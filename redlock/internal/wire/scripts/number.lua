local longestTTL = 24 * 60 * 60 * 1000 -- of any lock

-- A semaphore's number of permits outlives its slots, each of which is a mutex: whatever gives the
-- key of a slot an end makes the number live for twice that time, if it does not live longer. So
-- the number depends on no longest time to live of any client, and ends soon after the last use.
local function lifeOfNumber(ttlMillis)
  return string.format('%.0f', 2 * ttlMillis)
end

-- keepNumber is told the key of a slot and how long it lives now. The key of another mutex has no
-- number. Returns nothing, or an error.
local function keepNumber(key, ttlMillis)
  local semaphore = string.match(key, '^(.*)#%d+$')
  if not semaphore then
    return nil
  end
  local number = 'redquorum:permits:' .. semaphore
  local left = redis.pcall('PTTL', number)
  if type(left) == 'table' then -- the user may not ask: as long as any slot may need it
    left = redis.pcall('PEXPIRE', number, lifeOfNumber(longestTTL))
  elseif left ~= -2 and left < 2 * ttlMillis then
    left = redis.pcall('PEXPIRE', number, lifeOfNumber(ttlMillis))
  end
  return type(left) == 'table' and left or nil
end

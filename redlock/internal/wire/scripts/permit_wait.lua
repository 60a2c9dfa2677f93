-- requires list_life permit_take
-- Take any slot of a semaphore, or wait for one. One node is asked this, as in wait.lua.
--
-- KEYS[1]  the semaphore's key
-- ARGV[1]  the value to set
-- ARGV[2]  time to live in milliseconds
-- ARGV[3]  the number of permits
-- ARGV[4]  the slot to try first
-- ARGV[5]  the caller's process, or empty: then it does not wait here
-- ARGV[6]  for how long the caller has waited already, in microseconds: it orders the list
-- ARGV[7]  how many may wait
-- ARGV[8]  with fencing: the caller's wall clock in microseconds
-- ARGV[9]  with fencing: how long the counter lives, in milliseconds
-- Returns the slot that the caller now holds, and its fence as text (without fencing, 1). Otherwise
-- 0, for how many milliseconds all slots are taken (-1 if none expires; only the first 64 count),
-- and 1 if the caller is on the list, else 0. If no slot is a lock, the error of one. Returns -1 and
-- the number of permits that this node knows if that is another one, and a slot is taken.
local semaphore, value = KEYS[1], ARGV[1]
local refusal = admit(semaphore, ARGV[3], ARGV[2])
if refusal then
  return refusal
end
local permits = tonumber(ARGV[3])
local slots = readChoices(slotKeys(semaphore, permits))
local list, waiter = 'redquorum:permit:wait:' .. semaphore, ARGV[5] .. ':' .. value
local got, fence = takeAny(semaphore, permits, tonumber(ARGV[4]), slots, value, ARGV[2], ARGV[8], ARGV[9])
if type(fence) == 'table' then
  return fence
elseif got then
  redis.pcall('ZREM', list, waiter)
  return { got, fence }
end
local taken = false
for _, holder in ipairs(slots) do
  taken = taken or type(holder) == 'string'
end
if not taken then -- there is nobody to wait for
  return noLock(slots)
end

local waits, time = 0, redis.pcall('TIME')
if ARGV[5] ~= '' and not time.err then
  local since = string.format('%.0f', time[1] * 1000000 + time[2] - ARGV[6])
  local added = redis.pcall('ZADD', list, 'NX', since, waiter)
  if type(added) == 'table' and string.sub(added.err, 1, 9) == 'WRONGTYPE' then
    -- Not written by this library, and nobody can wait there.
    redis.pcall('DEL', list)
    added = redis.pcall('ZADD', list, 'NX', since, waiter)
  end
  local length = added == 1 and redis.pcall('ZCARD', list)
  if type(length) == 'number' and length > tonumber(ARGV[7]) then
    redis.pcall('ZREM', list, waiter)
  end
  redis.pcall('PEXPIRE', list, listLife)
  if type(redis.pcall('ZSCORE', list, waiter)) == 'string' then
    waits = 1
  end
end
local least = -1
for _, key in ipairs(slotKeys(semaphore, math.min(permits, 64))) do -- each is a command
  local left = redis.call('PTTL', key)
  if left ~= -1 and (least < 0 or left < least) then
    least = math.max(left, 0)
  end
end
return { 0, least, waits }

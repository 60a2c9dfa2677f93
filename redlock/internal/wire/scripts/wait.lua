-- Take all keys, or wait for one of them. This is asked of one node, the pilot, which so brings those who want a lock into an
-- order. A key that is the caller's already was handed over to it (handover.lua): taking it confirms that.
--
-- KEYS     the lock's keys
-- ARGV[1]  the value to set
-- ARGV[2]  time to live in milliseconds
-- ARGV[3]  the grace of a waiter who gets a key that is no use to the caller, in milliseconds
-- ARGV[4]  which of the keys this node is the pilot of: the one to wait for
-- ARGV[5]  the caller's process, or nothing: then it does not wait here
-- ARGV[6]  how long the caller has waited already, in microseconds: its place is by that
-- ARGV[7]  how many may wait
-- ARGV[8]  the place on the list of clients of other libraries, "others" or "anyone" (others.lua),
-- or nothing
-- ARGV[9]  with fencing: the caller's wall clock in microseconds
-- ARGV[10] with fencing: how long the counters live, in milliseconds
-- Returns 1 and the fence as text (without fencing, 1) when all keys are the caller's now.
-- Otherwise 0, which key is taken, for how many milliseconds it is, and 1 if the caller is on that
-- key's list. Behind that, where the holder is not ours, a number above 0 that tells one from the
-- next; but 0 where an older waiter looks for a moment in which the key is free. Where it is free
-- for other clients to take, -1; or -2 where an older waiter looks whether they have.
local value, target = ARGV[1], tonumber(ARGV[4])
local list, waiter = 'redquorum:wait:' .. KEYS[target], ARGV[5] .. ':' .. value

local taken, other, left
for i = 0, #KEYS - 1 do
  local at = (target - 1 + i) % #KEYS + 1
  local holder = redis.call('GET', KEYS[at])
  if holder and holder ~= value then
    taken, other = at, isForeign(holder) and holder
    break
  elseif not holder and at == target then
    left = endTurn(KEYS[at])
    if left then
      taken = at
      break
    end
  end
end

if not taken then
  local fence = ARGV[9] and raiseFence(KEYS, ARGV[9], ARGV[10]) or 1
  if type(fence) == 'table' then
    return fence
  end
  for _, key in ipairs(KEYS) do
    redis.call('SET', key, value, 'PX', ARGV[2])
  end
  redis.pcall('ZREM', list, waiter)
  return { 1, fence }
end

-- All or none: what was handed over while another of the keys is taken goes on.
for at, key in ipairs(KEYS) do
  if at ~= taken and redis.call('GET', key) == value then
    handOver(key, ARGV[3])
  end
end

local now = micros()
if other and now then
  seeOther(KEYS[taken], now)
end
local waits = 0
if ARGV[5] ~= '' and taken == target and now then
  local since = string.format('%.0f', now - ARGV[6])
  local function stand()
    if ARGV[8] == '' then
      return redis.pcall('ZADD', list, 'NX', since, waiter)
    end
    return redis.pcall('ZADD', list, 'NX', since, waiter, string.format('%.0f', now + turnPause * 1000), ARGV[8])
  end
  local added = stand()
  if type(added) == 'table' and string.sub(added.err, 1, 9) == 'WRONGTYPE' then -- somebody else wrote it, and nobody can wait there
    redis.pcall('DEL', list)
    added = stand()
  end
  local length = added ~= 0 and redis.pcall('ZCARD', list)
  if type(length) == 'number' and length > tonumber(ARGV[7]) then
    redis.pcall('ZREM', list, waiter)
  end
  redis.pcall('PEXPIRE', list, listLife)
  if type(redis.pcall('ZSCORE', list, waiter)) == 'string' then
    waits = 1
    redis.pcall('SET', 'redquorum:waits:' .. KEYS[target], '', 'PX', listLife) -- for free.lua
  end
end
if not other and not left then
  return { 0, taken, redis.call('PTTL', KEYS[taken]), waits }
end
-- The oldest looks for that moment, and one who is on no list.
local looks = waits == 0
for _, member in ipairs(waits == 1 and redis.pcall('ZRANGE', list, 0, 15) or {}) do
  local colon = string.find(member, ':', 1, true)
  if member == waiter then
    looks = true
    break
  elseif colon and listeners(string.sub(member, 1, colon - 1)) ~= 0 then
    break
  elseif colon then
    redis.pcall('ZREM', list, member)
  end
end
if not other then
  return { 0, taken, left, waits, looks and -1 or -2 }
end
local name = tonumber(string.sub(redis.sha1hex(string.sub(other, 1, 64)), 1, 8), 16) + 1
return { 0, taken, redis.call('PTTL', KEYS[taken]), waits, looks and name or 0 }

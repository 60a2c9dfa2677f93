-- Take all keys, or wait for one of them. One node is asked this, the pilot, which thereby puts the
-- waiters for a lock in order. If the caller already holds a key, it was handed over
-- (handover.lua): taking it confirms that.
--
-- KEYS     the lock's keys
-- ARGV[1]  the value to set
-- ARGV[2]  time to live in milliseconds
-- ARGV[3]  the grace of a waiter that gets a key the caller cannot use, in milliseconds
-- ARGV[4]  the index of the key whose pilot this node is: the one to wait for
-- ARGV[5]  the caller's process, or empty: then it does not wait here
-- ARGV[6]  for how long the caller has waited already, in microseconds: it orders the list
-- ARGV[7]  how many may wait
-- ARGV[8]  the place of other libraries' clients on the list, "others" or "anyone" (others.lua), or
--          empty
-- ARGV[9]  with fencing: the caller's wall clock in microseconds
-- ARGV[10] with fencing: how long the counters live, in milliseconds
-- Returns 1 and the fence as text (without fencing, 1) when the caller now holds all keys.
-- Otherwise 0, which key is taken, for how many milliseconds it is, and 1 if the caller is on that
-- key's list. A fifth entry follows if the holder is not ours: a number above 0 that identifies it,
-- or 0 if an older waiter polls for the moment in which the key is free. If the key is free for
-- other clients to take, the fifth is -1, or -2 if an older waiter polls whether they have.
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

-- All or none: a key that was handed over while another of the keys is taken is handed on.
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
  local function enqueue()
    if ARGV[8] == '' then
      return redis.pcall('ZADD', list, 'NX', since, waiter)
    end
    return redis.pcall('ZADD', list, 'NX', since, waiter, string.format('%.0f', now + turnPause * 1000), ARGV[8])
  end
  local added = enqueue()
  if type(added) == 'table' and string.sub(added.err, 1, 9) == 'WRONGTYPE' then
    -- Not written by this library, and nobody can wait there.
    redis.pcall('DEL', list)
    added = enqueue()
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
-- The oldest waiter polls for that moment, and so does a caller that is on no list.
local polls = waits == 0
for _, member in ipairs(waits == 1 and redis.pcall('ZRANGE', list, 0, 15) or {}) do
  local colon = string.find(member, ':', 1, true)
  if member == waiter then
    polls = true
    break
  elseif colon and listeners(string.sub(member, 1, colon - 1)) ~= 0 then
    break
  elseif colon then
    redis.pcall('ZREM', list, member)
  end
end
if not other then
  return { 0, taken, left, waits, polls and -1 or -2 }
end
local name = tonumber(string.sub(redis.sha1hex(string.sub(other, 1, 64)), 1, 8), 16) + 1
return { 0, taken, redis.call('PTTL', KEYS[taken]), waits, polls and name or 0 }

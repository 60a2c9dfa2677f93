-- requires handover fence enqueue lasting
-- Take all keys, or wait for one of them. One node is asked this, the coordinator, which thereby
-- puts the waiters for a lock in order. If the caller already holds a key, it was handed over
-- (handover.lua): taking it confirms that.
--
-- KEYS     the lock's keys
-- ARGV[1]  the value to set
-- ARGV[2]  time to live in milliseconds
-- ARGV[3]  the grace of a waiter that gets a key the caller cannot use, in milliseconds
-- ARGV[4]  the index of the key whose coordinator this node is: the one to wait for
-- ARGV[5]  the caller's process, or empty: then it does not wait here
-- ARGV[6]  for how long the caller has waited already, in microseconds: it orders the list
-- ARGV[7]  how many may wait
-- ARGV[8]  the place of other libraries' clients on the list, "others" or "anyone" (others.lua), or
--          empty
-- ARGV[9]  with fencing: the caller's wall clock in microseconds
-- ARGV[10] with fencing: how long the counters live, in milliseconds
-- ARGV[11] if the caller has met readers: how long its intent (announce.lua) lives, in
--          milliseconds. Then the two before it are empty without fencing
-- Returns 1 and the fence as text (without fencing, 1) when the caller now holds all keys.
-- Otherwise 0, which key is taken, for how many milliseconds it is, and 1 if the caller is on that
-- key's list. A fifth entry follows if the holder is not ours: a number above 0 that identifies it,
-- or 0 if an older waiter polls for the moment in which the key is free. If the key is free for
-- other clients to take, the fifth is -1, or -2 if an older waiter polls whether they have. If
-- readers hold the key, it is -4.
local value, target = ARGV[1], tonumber(ARGV[4])
local list, waiter = 'redquorum:wait:' .. KEYS[target], ARGV[5] .. ':' .. value

local taken, other, left, read
local mine = {}
for i = 0, #KEYS - 1 do
  local at = (target - 1 + i) % #KEYS + 1
  local holder = redis.call('GET', KEYS[at])
  if holder and holder ~= value then
    taken, other, read = at, isForeign(holder) and holder, holder == marker
    break
  elseif holder then
    mine[KEYS[at]] = true
  elseif at == target then
    left = endTurn(KEYS[at])
    if left then
      taken = at
      break
    end
  end
end

if not taken then
  local fence = (ARGV[9] or '') ~= '' and raiseFence(KEYS, ARGV[9], ARGV[10]) or 1
  if type(fence) == 'table' then
    return fence
  end
  for _, key in ipairs(KEYS) do
    redis.call('SET', key, value, 'PX', mine[key] and lasting(key, ARGV[2]) or ARGV[2])
    if ARGV[11] then
      withdraw(key, value)
    end
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
if ARGV[11] and not left then
  redis.pcall('SET', intentOf(KEYS[taken]), value, 'PX', ARGV[11])
end
local waits = 0
if ARGV[5] ~= '' and taken == target and now then
  waits = enqueue(KEYS[target], waiter, now, ARGV[6], ARGV[7], ARGV[8])
end
local answer = refusal(KEYS[taken], taken, waiter, waits, other, left)
if read then
  answer[5] = -4
end
return answer

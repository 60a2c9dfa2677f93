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
-- ARGV[7]  how long the list lives without anyone asking, in milliseconds
-- ARGV[8]  how many may wait
-- ARGV[9]  with fencing: the caller's wall clock in microseconds
-- ARGV[10] with fencing: how long the counters live, in milliseconds
-- Returns 1 and the fence as text (without fencing, 1) when all keys are the caller's now. Otherwise 0, which key is taken, for how many
-- milliseconds it is, and 1 if the caller is on that key's list.
local value, target = ARGV[1], tonumber(ARGV[4])
local list, waiter = 'redquorum:wait:' .. KEYS[target], ARGV[5] .. ':' .. value

local taken
for i = 0, #KEYS - 1 do
  local at = (target - 1 + i) % #KEYS + 1
  local holder = redis.call('GET', KEYS[at])
  if holder and holder ~= value then
    taken = at
    break
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

local waits, time = 0, redis.pcall('TIME')
if ARGV[5] ~= '' and taken == target and not time.err then
  local since = string.format('%.0f', time[1] * 1000000 + time[2] - ARGV[6])
  local added = redis.pcall('ZADD', list, 'NX', since, waiter)
  if type(added) == 'table' and string.sub(added.err, 1, 9) == 'WRONGTYPE' then -- somebody else wrote it, and nobody can wait there
    redis.pcall('DEL', list)
    added = redis.pcall('ZADD', list, 'NX', since, waiter)
  end
  local length = added == 1 and redis.pcall('ZCARD', list)
  if type(length) == 'number' and length > tonumber(ARGV[8]) then
    redis.pcall('ZREM', list, waiter)
  end
  redis.pcall('PEXPIRE', list, ARGV[7])
  if type(redis.pcall('ZSCORE', list, waiter)) == 'string' then
    waits = 1
    redis.pcall('SET', 'redquorum:waits:' .. KEYS[target], '', 'PX', ARGV[7]) -- for free.lua
  end
end
return { 0, taken, redis.call('PTTL', KEYS[taken]), waits }

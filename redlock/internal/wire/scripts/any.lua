-- requires handover fence choices
-- Take one of several locks: the first that is free, or a certain one.
--
-- KEYS     the locks' keys
-- ARGV[1]  the value to set
-- ARGV[2]  time to live in milliseconds
-- ARGV[3]  the grace of a waiter that gets a key the caller gives up, in milliseconds
-- ARGV[4]  the index of the key to take, or 0 for any. With an index, other keys that the value has
--          here are given up
-- ARGV[5]  with fencing: the caller's wall clock in microseconds
-- ARGV[6]  with fencing: how long the counter lives, in milliseconds
-- Returns the index of the key that the caller now holds, or 0; its fence as text (without fencing,
-- 1), or 0; and for each key 1 if it is free, 0 if not, as one text. If what it may take is no
-- lock, and it got none, the error.
local value, only = ARGV[1], tonumber(ARGV[4])
local holders = readChoices(KEYS)

-- A key that is the caller's keeps the later end of its two times to live: a request that comes
-- late must not shorten an extension.
local function take(at)
  local key, mine = KEYS[at], holders[at] == value
  if holders[at] and not mine then
    return nil
  elseif not mine then
    redis.call('SET', key, value, 'PX', ARGV[2])
  end
  local left = mine and redis.call('PTTL', key) or -1
  if left >= 0 and left < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', key, ARGV[2])
  end
  local fence = ARGV[5] and raiseFence({ key }, ARGV[5], ARGV[6]) or 1
  if type(fence) == 'table' and not mine then
    redis.call('DEL', key)
  end
  holders[at] = value
  return fence
end

local got, fence
for at = 1, #KEYS do
  if only > 0 and at ~= only and holders[at] == value then
    holders[at] = handOver(KEYS[at], ARGV[3], value) ~= 1
  elseif holders[at] == value then
    got = at
  end
end
for at = 1, #KEYS do
  if not fence and at == (only > 0 and only or got or at) then
    fence = take(at)
    got = fence and at or got
  end
end
return chosen(got, fence, holders, only)

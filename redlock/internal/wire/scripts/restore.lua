-- requires handover adopted
-- Give the key its old value back, if the swap reached it and the old holder has not released it
-- since. It lives as long as it would have, like the note of adopt.lua. Without the note the old
-- holder has no claim to it. If somebody is adopting the key from the caller meanwhile, the note of
-- that adoption takes over the old value: if that adoption fails as well, the key goes to the old
-- holder.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the value of the swap
-- ARGV[2]  the grace of a waiter that gets the key, in milliseconds
-- Returns 1 when nothing of the swap is left, 0 when it had not reached the key.
local mine = 'redquorum:adopt:' .. KEYS[1] .. ':' .. ARGV[1]
local old, left = redis.pcall('GET', mine), redis.pcall('PTTL', mine)
local claimed = type(old) == 'string' and type(left) == 'number' and left >= 0
left = claimed and math.max(left, 1) -- in its last millisecond the old holder may still hold it
local holder = redis.call('GET', KEYS[1])
redis.pcall('DEL', mine)
if holder == ARGV[1] then
  if claimed then
    redis.call('SET', KEYS[1], old, 'PX', left)
  else
    handOver(KEYS[1], ARGV[2], ARGV[1])
  end
  return 1
end
local note = holder and noteOf(KEYS[1], ARGV[1], holder)
if not note then
  return 0
end
if claimed then
  redis.pcall('SET', note, old, 'PX', left)
else
  redis.pcall('DEL', note)
end
return 1

-- Compare, and hand over or delete: a key is deleted only if it still holds the caller's value. A
-- note that somebody is adopting it from the caller (adopt.lua) is deleted, too; there are several
-- notes if that adopter's lock is being adopted in turn.
--
-- KEYS     the lock's keys
-- ARGV[1]  the value that the caller set
-- ARGV[2]  the grace of a waiter that gets the key, in milliseconds
-- ARGV[3]  the caller's process, if this attempt may be on the wait lists: it leaves them
-- Returns 0 when a key was absent or held by somebody else. When the caller held all: 3 if one of
-- them was left to other clients for a while, 2 if one was handed over, otherwise 1. If one of the
-- keys is no longer a lock, its error, after the others have been released.
local mine, how, failed = 0, 1, nil
for i, key in ipairs(KEYS) do
  if ARGV[3] then
    local list = 'redquorum:wait:' .. key
    if redis.pcall('ZREM', list, ARGV[3] .. ':' .. ARGV[1]) == 1 and not someWait(list) then
      redis.pcall('DEL', 'redquorum:waits:' .. key, list)
    end
  end
  local holder = first
  if i > 1 then
    holder = redis.pcall('GET', key)
  end
  if type(holder) == 'table' then
    failed = holder
  elseif holder == ARGV[1] then
    mine = mine + 1
    how = math.max(how, handOver(key, ARGV[2], ARGV[1]))
  elseif holder then
    for _ = 1, 8 do
      local note = 'redquorum:adopt:' .. key .. ':' .. holder
      holder = redis.pcall('GET', note)
      if holder == ARGV[1] then
        redis.pcall('DEL', note)
      end
      if type(holder) ~= 'string' or holder == ARGV[1] then
        break
      end
    end
  end
end
if failed then
  return failed
end
if mine < #KEYS then
  return 0
end
return how

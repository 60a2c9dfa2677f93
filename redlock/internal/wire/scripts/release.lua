-- Compare, and hand over or delete: a key goes only if it still holds the caller's value. A note
-- that somebody is adopting it from the caller (adopt.lua) goes too; there are several where that
-- one's lock is being adopted.
--
-- KEYS     the lock's keys
-- ARGV[1]  the value that the caller set
-- ARGV[2]  the grace of a waiter who gets the key, in milliseconds
-- ARGV[3]  the caller's process, where this attempt may be on the wait lists: it leaves them
-- Returns 0 when a key was absent or another's. When all were the caller's: 3 if one of them was
-- left to other clients for a while, 2 if one was handed over, otherwise 1. Where one of the keys
-- is no lock any more, that error, when the others have been released.
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

-- requires handover release_one
-- Compare, and hand over or delete: a key is deleted only if it still holds the caller's value.
--
-- KEYS     the lock's keys
-- ARGV[1]  the value that the caller set
-- ARGV[2]  the grace of a waiter that gets the key, in milliseconds
-- ARGV[3]  the caller's process, if this attempt may be on the wait lists: it leaves them
-- ARGV[4]  "announced" if it may have kept readers out (announce.lua): it lets them in
-- Returns 0 when a key was absent or held by somebody else. When the caller held all: 3 if one of
-- them was left to other clients for a while, 2 if one was handed over, otherwise 1. If one of the
-- keys is no longer a lock, its error, after the others have been released.
local mine, how, failed = 0, 1, nil
for i, key in ipairs(KEYS) do
  if ARGV[3] then
    local list = 'redquorum:wait:' .. key
    if leave(list, ARGV[3] .. ':' .. ARGV[1]) and not someWait(list) then
      redis.pcall('DEL', 'redquorum:waits:' .. key, list)
    end
  end
  local holder = first
  if i > 1 then
    holder = redis.pcall('GET', key)
  end
  if ARGV[4] == 'announced' then
    withdraw(key, ARGV[1])
  end
  if ARGV[3] and holder == marker then -- readers may have waited only for the caller
    handOver(key, ARGV[2], marker, true, ARGV[4] == 'announced')
  end
  local one = releaseOne(key, ARGV[1], ARGV[2], holder)
  if type(one) == 'table' then
    failed = one
  elseif one > 0 then
    mine = mine + 1
    how = math.max(how, one)
  end
end
if failed then
  return failed
end
if mine < #KEYS then
  return 0
end
return how

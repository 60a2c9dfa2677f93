-- requires handover shared_release_one
-- End a read, or the wait for one.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the caller's value
-- ARGV[2]  the grace of waiters that get the key, in milliseconds
-- ARGV[3]  the caller's process, if this attempt may be on the wait list: it leaves it
-- Returns 0 when the caller was no reader, 3 when the key was left to other clients for a while, 2
-- when it was handed over, else 1.
if ARGV[3] then
  local list = 'redquorum:wait:' .. KEYS[1]
  if leave(list, '+' .. ARGV[3] .. ':' .. ARGV[1]) and not someWait(list) then
    redis.pcall('DEL', 'redquorum:waits:' .. KEYS[1], list)
  end
end
return releaseReader(KEYS[1], ARGV[1], ARGV[2])

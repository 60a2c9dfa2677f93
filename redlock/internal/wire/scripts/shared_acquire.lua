-- requires shared fence shared_admit
-- Become a reader of a key.
--
-- A writer that waits keeps new readers out by its intent. It does not keep out a reader that is
-- one already, or whose turn has come: a release has handed it the vote of its coordinator, before
-- that writer. Otherwise such a reader would get no other vote as long as the writer waits.
--
-- The counter is raised to the caller's wall clock, and not past what it is already: readers may
-- have equal tokens.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the caller's value
-- ARGV[2]  time to live in milliseconds
-- ARGV[3]  1 if the caller's turn has come, or empty
-- ARGV[4]  the caller's process, if it may be on the wait list: once it reads, it leaves it; or
--          empty
-- ARGV[5]  with fencing: the caller's wall clock in microseconds
-- ARGV[6]  with fencing: how long the counters live, in milliseconds
-- Returns 0 when a writer has the key or keeps readers out. When the caller is a reader: the fence
-- as text, or 1 without fencing.
local fence = admitReader(KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[5], ARGV[6])
if fence ~= 0 and type(fence) ~= 'table' and ARGV[4] ~= '' then
  redis.pcall('ZREM', 'redquorum:wait:' .. KEYS[1], '+' .. ARGV[4] .. ':' .. ARGV[1])
end
return fence

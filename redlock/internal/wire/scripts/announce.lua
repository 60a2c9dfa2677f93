-- requires shared fence lasting
-- Take a key for a writer that waits, or keep new readers out of it. The intent lives for a short
-- while, so that a writer that died keeps nobody out for long. Exclusion does not depend on it.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the value to set
-- ARGV[2]  time to live in milliseconds
-- ARGV[3]  how long the intent lives, in milliseconds
-- ARGV[4]  with fencing: the caller's wall clock in microseconds
-- ARGV[5]  with fencing: how long the counters live, in milliseconds
-- Returns 0 when somebody else holds the key. When the caller now holds it, possibly because it was
-- handed over: the fence as text, or 1 without fencing.
local key = KEYS[1]
local holder = redis.call('GET', key)
if holder and holder ~= ARGV[1] then
  redis.pcall('SET', intentOf(key), ARGV[1], 'PX', ARGV[3])
  return 0
end
local fence = ARGV[4] and raiseFence(KEYS, ARGV[4], ARGV[5]) or 1
if type(fence) == 'table' then
  return fence
end
redis.call('SET', key, ARGV[1], 'PX', holder and lasting(key, ARGV[2]) or ARGV[2])
withdraw(key, ARGV[1])
return fence

-- requires acquire_one fence
-- Take all keys or none.
--
-- KEYS     the lock's keys
-- ARGV[1]  the value to set
-- ARGV[2]  time to live in milliseconds
-- ARGV[3]  with fencing: the caller's wall clock in microseconds
-- ARGV[4]  with fencing: how long the counters live, in milliseconds
-- Returns 0 when one is taken. When all were free and the caller now holds them: 1 without fencing;
-- with it the fence as text, or OK if that is the caller's clock. If it fails, it leaves no key
-- behind.
for _, key in ipairs(KEYS) do
  if not mine and redis.call('EXISTS', key) == 1 then
    return 0
  end
end
local fence = ARGV[3] and raiseFence(KEYS, ARGV[3], ARGV[4]) or 1
local failed = type(fence) == 'table' and fence
for at, key in ipairs(KEYS) do
  local done = failed or redis.pcall('SET', key, ARGV[1], 'PX', ARGV[2])
  if done.err then
    for undo = 1, mine and 1 or at - 1 do
      redis.call('DEL', KEYS[undo])
    end
    return done
  end
end
return fence

-- Take all keys or none.
--
-- KEYS     the lock's keys
-- ARGV[1]  the value to set
-- ARGV[2]  time to live in milliseconds
-- Returns 1 when all were free and are the caller's now, 0 when one is taken.
for _, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 1 then
    return 0
  end
end
for _, key in ipairs(KEYS) do
  redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
end
return 1

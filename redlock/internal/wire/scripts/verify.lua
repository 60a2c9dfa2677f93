-- Does the caller hold all of these keys?
--
-- KEYS     the lock's keys
-- ARGV[1]  the value that the caller set
-- Returns 1 when every key holds it, 0 otherwise.
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) ~= ARGV[1] then
    return 0
  end
end
return 1

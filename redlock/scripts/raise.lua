-- Bring the counters of a lock up to the token that its holder found at other nodes.
--
-- Both conditions are needed. A holder whose key is gone has been followed by another, who may have taken the same number from
-- this counter; and a counter that is past the token has been read by somebody already.
--
-- KEYS     the lock's keys
-- ARGV[1]  the value that the caller set
-- ARGV[2]  the token
-- ARGV[3]  how long the counters live, in milliseconds
-- Returns 1 when all keys are the caller's and all counters are at the token now, 0 when nothing was changed.
for _, key in ipairs(KEYS) do
  local fence = redis.call('GET', 'redquorum:fence:' .. key)
  if redis.call('GET', key) ~= ARGV[1] or (fence and tonumber(fence) > tonumber(ARGV[2])) then
    return 0
  end
end
for _, key in ipairs(KEYS) do
  redis.call('SET', 'redquorum:fence:' .. key, ARGV[2], 'PX', ARGV[3])
end
return 1

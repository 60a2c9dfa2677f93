-- Bring the counters of a lock up to the token that its holder found at other nodes.
--
-- The comparison of the counters is strict. A counter that is at the token already may be there because somebody else was given it:
-- a key can come back to the caller without a new fence, when it expired, another acquired it, and his release handed it
-- over to the caller's place on the list. So on each node, every number goes to one attempt, and that is why tokens are unique.
-- That the key is the caller's keeps a raise that comes late from lifting the counter under another holder.
--
-- KEYS     the lock's keys
-- ARGV[1]  the value that the caller set
-- ARGV[2]  the token
-- ARGV[3]  how long the counters live, in milliseconds
-- Returns 1 when all keys are the caller's and all counters are at the token now, 0 when nothing was changed.
for _, key in ipairs(KEYS) do
  local fence = redis.call('GET', 'redquorum:fence:' .. key)
  if redis.call('GET', key) ~= ARGV[1] or (fence and tonumber(fence) >= tonumber(ARGV[2])) then
    return 0
  end
end
for _, key in ipairs(KEYS) do
  redis.call('SET', 'redquorum:fence:' .. key, ARGV[2], 'PX', ARGV[3])
end
return 1

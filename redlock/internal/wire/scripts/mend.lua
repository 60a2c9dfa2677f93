-- Bring the counters of a lock back from far ahead. The caller's token was confirmed by a quorum of
-- other nodes, and this one gave it a number minutes past that: its clock or its counter is or was
-- wrong. The counters go to a minute past the token, which is still above all that this node has
-- confirmed together with others (docs/safety.md, S22), and the clock will come there.
--
-- The counters are compared with what the caller was given. So nothing was confirmed here since,
-- and it does not matter how late this comes, or how many do it.
--
-- KEYS     the lock's keys
-- ARGV[1]  the value that the caller set
-- ARGV[2]  the fence that it was given here
-- ARGV[3]  what the counters are to be instead
-- ARGV[4]  how long the counters live, in milliseconds
-- Returns 1 when mended, 0 when nothing was changed.
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) ~= ARGV[1] or redis.pcall('GET', 'redquorum:fence:' .. key) ~= ARGV[2] then
    return 0
  end
end
for _, key in ipairs(KEYS) do
  redis.call('SET', 'redquorum:fence:' .. key, ARGV[3], 'PX', ARGV[4])
end
return 1

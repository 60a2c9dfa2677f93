-- Bring the counters of a lock back from far ahead. The caller's token was confirmed by a quorum of
-- other nodes, and this node gave it a number minutes past that: its clock or its counter is or was
-- wrong. The counters go to a minute past the token. That is still above everything that this node
-- has confirmed together with others (docs/safety.md, S22), and the clock will get there.
--
-- The counters are compared with what the caller was given. So nothing was confirmed here since,
-- and it does not matter how late this arrives, or how many callers do it.
--
-- KEYS     the lock's keys
-- ARGV[1]  the value that the caller set
-- ARGV[2]  the fence that the caller was given here
-- ARGV[3]  the new value of the counters
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

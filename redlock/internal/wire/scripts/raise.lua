-- requires fence raise_one
-- Bring the counters of a lock up to the token that its holder found at other nodes.
--
-- The comparison of the counters is strict. A counter that is already at the token may be there
-- because somebody else was given it: a key can come back to the caller without a new fence, if it
-- expired, another client acquired it, and that client's release handed it over to the caller's
-- place on the list. So on each node every number goes to only one attempt, which is why tokens are
-- unique. Comparing the key keeps a raise that arrives late from lifting the counter under another
-- holder.
--
-- A token that is more than 20 s ahead of this server's clock is another node's mistake, and is not
-- followed: so one wrong node never carries the others away. If the counter itself is past that
-- limit, this server's clock was set back and is no guide; then the token may be ahead of the
-- counter by as long as counters live.
--
-- KEYS     the lock's keys
-- ARGV[1]  the value that the caller set
-- ARGV[2]  the token
-- ARGV[3]  how long the counters live, in milliseconds
-- Returns 1 when the caller holds all keys and all counters are now at the token. Otherwise nothing
-- was changed: 0, or -1 if the token is too far ahead.
local limit = limitAt(redis.call('TIME'))
for _, key in ipairs(KEYS) do
  local no = mayRaise(key, ARGV[1], tonumber(ARGV[2]), ARGV[3], limit)
  if no then
    return no
  end
end
for _, key in ipairs(KEYS) do
  redis.call('SET', 'redquorum:fence:' .. key, ARGV[2], 'PX', ARGV[3])
end
return 1

-- Put tasks into the queue, or move those that are there.
--
-- KEYS     as in change.lua
-- ARGV[1]  the caller's fence
-- ARGV[2]  the delay in microseconds after which they are due
-- ARGV[3]  1 to leave existing tasks where they are
-- ARGV[4]  and the rest: the ids
-- Returns 'ok', or nil if the caller is stale.
return once(ARGV[1], function()
  local due = scoreOf(nowMicros() + tonumber(ARGV[2]))
  for i = 4, #ARGV do
    if ARGV[3] == '1' then
      redis.call('ZADD', KEYS[1], 'NX', due, ARGV[i])
    else
      redis.call('ZADD', KEYS[1], due, ARGV[i])
    end
  end
  return 'ok'
end)

-- Put tasks into the queue, or move those that are there.
--
-- KEYS     as in change.lua
-- ARGV[1]  the caller's fence
-- ARGV[2]  the delay in microseconds after which they are due
-- ARGV[3]  1 to leave existing tasks where they are
-- ARGV[4]  2 if each id has a payload behind it, and 1 if not: existing tasks keep theirs
-- ARGV[5]  and the rest: the ids
-- Returns 'ok', or nil if the caller is stale.
return once(ARGV[1], function()
  reclaim()
  local due, step = scoreOf(nowMicros() + tonumber(ARGV[2])), tonumber(ARGV[4])
  for i = 5, #ARGV, step do
    local id, payload = ARGV[i], step == 2 and ARGV[i + 1] or ''
    local fresh
    if ARGV[3] == '1' then
      fresh = redis.call('ZADD', KEYS[1], 'NX', due, id)
    else
      fresh = redis.call('ZADD', KEYS[1], due, id)
    end
    -- A new entry inherits nothing of one that somebody else has removed.
    if fresh == 1 or step == 2 and ARGV[3] ~= '1' then
      keep(id, due, { attempts = 0, errors = '', payload = payload })
    end
  end
  return 'ok'
end)

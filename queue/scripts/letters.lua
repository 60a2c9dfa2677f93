-- Put dead letters back into the queue, due at once and without attempts, or drop them. One whose id
-- is in the queue again is not put back.
--
-- KEYS     as in change.lua
-- ARGV[1]  the caller's fence
-- ARGV[2]  'retry' or 'drop'
-- ARGV[3]  and the rest: the ids
-- Returns how many there were, as text; nil if the caller is stale.
runWhenFull()
return once(ARGV[1], function()
  reclaim()
  local now, count = scoreOf(nowMicros()), 0
  for i = 3, #ARGV do
    local id = ARGV[i]
    local drops = ARGV[2] == 'drop'
    if redis.call('ZSCORE', KEYS[6], id) and (drops or not redis.call('ZSCORE', KEYS[1], id)) then
      if not drops then
        keep(id, now, { attempts = 0, errors = '', payload = read(KEYS[7], id).payload })
        redis.call('ZADD', KEYS[1], now, id)
      end
      redis.call('ZREM', KEYS[6], id)
      redis.call('HDEL', KEYS[7], id)
      count = count + 1
    end
  end
  return string.format('%.0f', count)
end)

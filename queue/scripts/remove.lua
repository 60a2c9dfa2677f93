-- Remove tasks, whatever their score, with their attempts and payloads.
--
-- KEYS     as in change.lua
-- ARGV[1]  the caller's fence
-- ARGV[2]  and the rest: the ids
-- Returns how many existed, as text; nil if the caller is stale.
runWhenFull()
return once(ARGV[1], function()
  reclaim()
  local count = 0
  for i = 2, #ARGV do
    count = count + redis.call('ZREM', KEYS[1], ARGV[i])
    redis.call('ZREM', KEYS[5], ARGV[i])
    redis.call('HDEL', KEYS[4], ARGV[i])
  end
  return string.format('%.0f', count)
end)

-- extendReader gives one reader a new time to live, and no other: a reader that died does not live
-- longer because others renew. It does not look for intents, because a reader may go on. One that
-- is not there has no vote, and is healed as in extend.lua: a writer may have come and gone.
local function extendReader(key, value, ttlMillis, heals)
  local readers, holder = readersOf(key), redis.call('GET', key)
  local held = holder == marker
  if holder and not held then
    return 0
  end
  local now = millis()
  dropDead(readers, held, now)
  local vote = redis.call('ZSCORE', readers, value) and 1 or 2
  if vote == 2 and not heals then
    return vote
  end
  redis.call('ZADD', readers, exact(now + ttlMillis), value)
  mark(key, readers, held, now)
  return vote
end

-- releaseReader ends one read. The last reader hands the key over or deletes it; otherwise the
-- marker ends with the longest of those that remain. If that is earlier than before, the oldest
-- waiter learns it. Without the marker, the key is not touched. Returns what handOver returns, or 0
-- if the caller is no reader.
local function releaseReader(key, value, graceMillis)
  if redis.call('GET', key) ~= marker then
    return 0
  end
  local readers, now = readersOf(key), millis()
  dropDead(readers, true, now)
  local mine = redis.call('ZSCORE', readers, value)
  if not mine then
    return 0
  end
  redis.call('ZREM', readers, value)
  local last = mark(key, readers, true, now)
  if last then
    if mine - last > 20 then -- not because of a round trip
      wakeOldest(key)
    end
    return 1
  end
  return handOver(key, graceMillis, marker)
end

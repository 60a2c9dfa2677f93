-- releaseReader ends one read. The last reader hands the key over or deletes it; otherwise the
-- marker ends with the longest of those that remain. Without the marker, the key is not touched.
-- Returns what handOver returns, or 0 if the caller is no reader.
local function releaseReader(key, value, graceMillis)
  if redis.call('GET', key) ~= marker then
    return 0
  end
  local readers, now = readersOf(key), millis()
  dropDead(readers, true, now)
  if redis.call('ZREM', readers, value) == 0 then
    return 0
  end
  if mark(key, readers, true, now) then
    return 1
  end
  return handOver(key, graceMillis, marker)
end

-- admitReader makes a value a reader, if its turn has come or no writer keeps readers out, and
-- returns the fence as text (without fencing, 1), 0 if it is refused, or an error. See
-- shared_acquire.lua for the arguments.
local function admitReader(key, value, ttlMillis, turn, ts, lifeMillis)
  local readers, holder = readersOf(key), redis.call('GET', key)
  local held = holder == marker
  if holder and not held then
    return 0
  end
  local now = millis()
  dropDead(readers, held, now)
  local new = turn == '' and not redis.call('ZSCORE', readers, value)
  if new and intentLeft(key) then
    return 0
  end
  local fence = ts and raiseFence({ key }, ts, lifeMillis, 0) or 1
  if type(fence) == 'table' then
    return fence
  end
  redis.call('ZADD', readers, exact(now + ttlMillis), value)
  mark(key, readers, held, now)
  return fence
end

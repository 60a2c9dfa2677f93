-- Release one key, whose holder has been read. A note that somebody is adopting it from the caller
-- (adopt.lua) is deleted, too; there are several notes if that adopter's lock is being adopted in
-- turn. Returns what handOver returns, 0 if the caller does not hold the key, or the error if it is
-- no longer a lock.
local function releaseOne(key, value, graceMillis, holder)
  if type(holder) == 'table' then
    return holder
  elseif holder == value then
    return handOver(key, graceMillis, value)
  elseif holder then
    for _ = 1, 8 do
      local note = 'redquorum:adopt:' .. key .. ':' .. holder
      holder = redis.pcall('GET', note)
      if holder == value then
        redis.pcall('DEL', note)
      end
      if type(holder) ~= 'string' or holder == value then
        break
      end
    end
  end
  return 0
end

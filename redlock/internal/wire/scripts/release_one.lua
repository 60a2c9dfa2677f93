-- requires adopted
-- Release one key, whose holder has been read. A note that somebody is adopting it from the caller
-- is deleted, too. Returns what handOver returns, 0 if the caller does not hold the key, or the
-- error if it is no longer a lock.
local function releaseOne(key, value, graceMillis, holder)
  if type(holder) == 'table' then
    return holder
  elseif holder == value then
    return handOver(key, graceMillis, value)
  elseif holder then
    local note = noteOf(key, value, holder)
    if note then
      redis.pcall('DEL', note)
    end
  end
  return 0
end

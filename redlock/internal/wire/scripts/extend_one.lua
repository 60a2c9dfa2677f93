-- requires number
-- extendOne gives one key a new time to live, if its caller holds it. Returns what extend.lua
-- returns for the key. If it is that of a slot, as of an adopted permit, the number of permits
-- lives on; what the caller may not do for that does not concern the lock.
local function extendOne(key, value, ttlMillis, heals)
  local holder, vote = redis.pcall('GET', key), 1
  local done
  if holder == value then
    done = redis.pcall('PEXPIRE', key, ttlMillis)
  elseif not holder then
    if not heals then
      return 2
    end
    done = redis.pcall('SET', key, value, 'PX', ttlMillis)
    vote = 2
  else
    done = holder
    vote = 0
  end
  if vote > 0 then
    keepNumber(key, ttlMillis)
  end
  return type(done) == 'table' and done.err or vote
end

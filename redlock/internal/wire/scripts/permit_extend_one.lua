-- requires permit_take
-- extendPermit gives one permit a new time to live: a slot of the semaphore whose key is given, and
-- the number of permits with it. Returns what extend.lua returns for a key.
--
-- Under another number nothing changes. A slot that is absent is healed only if the caller's number
-- can be in force, and then it is: otherwise the slot would keep a wrong number in force for as
-- long as its holder tries.
--
-- While the caller's slot is there, no other number was admitted since. So if the number is gone or
-- cannot be read, others deleted or overwrote it, and it is set again.
local function extendPermit(semaphore, value, heals, slot, permits, ttlMillis)
  local key, known = semaphore .. '#' .. slot, numberOf(semaphore)
  local holder = redis.call('GET', key)
  if not holder then
    if not heals then
      return 2
    elseif admit(semaphore, permits, ttlMillis) then
      return 0
    end
    redis.call('SET', key, value, 'PX', ttlMillis)
    keepNumber(key, ttlMillis)
    return 2
  elseif holder ~= value or known > 0 and known ~= tonumber(permits) then
    return 0
  end
  if known <= 0 then
    setNumber(semaphore, permits, ttlMillis)
  end
  redis.call('PEXPIRE', key, ttlMillis)
  return keepNumber(key, ttlMillis) or 1
end

-- requires publish number
-- A semaphore of k permits has k slots. Slot i, counted from 1, is the mutex whose key is that of
-- the semaphore, "#" and i. Its waiters share one list, redquorum:permit:wait:<semaphore>, and
-- redquorum:permits:<semaphore> holds k (number.lua). internal/proof/search/permit has the argument.

local mostPermits = 1024

local function slotKeys(semaphore, permits)
  local keys = {}
  for slot = 1, permits do
    keys[slot] = semaphore .. '#' .. slot
  end
  return keys
end

-- readSlots returns what each slot holds, or false. A slot whose key has another type looks free.
local function readSlots(semaphore, permits)
  return redis.call('MGET', unpack(slotKeys(semaphore, permits)))
end

-- numberOf returns the number of permits that this node knows, 0 if it knows none, and -1 if others
-- wrote something else. It fails if the caller may not read it.
local function numberOf(semaphore)
  local key = 'redquorum:permits:' .. semaphore
  local text = redis.pcall('GET', key)
  if type(text) == 'table' and string.sub(text.err, 1, 9) ~= 'WRONGTYPE' then
    text = redis.call('GET', key) -- fails in its own words
  end
  if not text then
    return 0
  end
  local number = type(text) == 'string' and string.find(text, '^%d%d?%d?%d?$') and tonumber(text) or -1
  return number >= 1 and number <= mostPermits and number or -1
end

local function setNumber(semaphore, permits, ttlMillis)
  redis.call('SET', 'redquorum:permits:' .. semaphore, permits, 'PX', lifeOfNumber(ttlMillis))
end

-- handSlot gives a slot that the caller holds to the oldest waiter for its semaphore, or deletes
-- it, like handOver. Returns 2 when the slot was handed over, else 1.
local function handSlot(semaphore, slot, graceMillis)
  local list, key = 'redquorum:permit:wait:' .. semaphore, semaphore .. '#' .. slot
  for _ = 1, 64 do
    local waiter = redis.pcall('ZPOPMIN', list)[1]
    if not waiter then
      break
    end
    local colon = string.find(waiter, ':', 1, true) or 0 -- none: not written by this library
    local process, value = string.sub(waiter, 1, colon - 1), string.sub(waiter, colon + 1)
    local receivers = colon > 1 and publish(process, '#' .. slot .. ' ' .. value)
    if receivers ~= 0 and type(receivers) == 'number' then
      local given = redis.pcall('SET', key, value, 'PX', graceMillis)
      if given.ok then
        keepNumber(key, graceMillis)
        return 2
      end
    end
  end
  redis.call('DEL', key)
  return 1
end

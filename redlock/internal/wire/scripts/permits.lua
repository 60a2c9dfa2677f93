-- requires list_life publish number preferred
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
-- it, like handOver. A holder that lacks this vote comes before all waiters. Returns 2 when the slot
-- was handed over, else 1.
local function handSlot(semaphore, slot, graceMillis, own)
  local list, key, how, aside = 'redquorum:permit:wait:' .. semaphore, semaphore .. '#' .. slot, 1, {}
  for _ = 1, 64 do
    local oldest = redis.pcall('ZPOPMIN', list)
    local waiter = oldest[1]
    if not waiter then
      break
    end
    local colon = string.find(waiter, ':', 1, true) or 0 -- none: not written by this library
    local process, value = string.sub(waiter, 1, colon - 1), string.sub(waiter, colon + 1)
    local lasts, receivers = graceMillis, nil
    if isPreferred(waiter) then
      local left, of = preferredLeft(oldest[2])
      if left and of ~= slot then
        aside[#aside + 1] = oldest
      end
      lasts, receivers = left, left and of == slot and value ~= own and 1 or 0
    else
      receivers = colon > 1 and publish(process, '#' .. slot .. ' ' .. value)
    end
    if receivers ~= 0 and type(receivers) == 'number' then
      local given = redis.pcall('SET', key, value, 'PX', lasts)
      if given.ok then
        keepNumber(key, lasts)
        how = 2
        break
      end
    end
  end
  for _, place in ipairs(aside) do
    putBack(list, place)
  end
  if how == 1 then
    redis.call('DEL', key)
  end
  return how
end

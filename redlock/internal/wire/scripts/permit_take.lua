-- requires fence permits choices
-- admit returns nothing if this node takes requests for a number of permits, and otherwise the
-- answer to one. While a slot of another number is taken here, it refuses: so the node knows k for
-- as long as the key of a slot lives that was granted under k. If others overwrote the number, any
-- slot may be of it; the next extension of one puts it right (permit_extend_one.lua).
local function admit(semaphore, permits, ttlMillis)
  local known = numberOf(semaphore)
  if known == tonumber(permits) then
    return nil
  end
  if known ~= 0 and redis.call('EXISTS', unpack(slotKeys(semaphore, known > 0 and known or mostPermits))) > 0 then
    return known > 0 and { -1, known } or
      redis.error_reply('ERR others overwrote the number of permits, and a slot is taken')
  end
  -- Those that wait under another number learn of this one when they poll.
  setNumber(semaphore, permits, ttlMillis)
  redis.pcall('DEL', 'redquorum:permit:wait:' .. semaphore)
end

-- takeSlot takes a slot that is free or the caller's. A slot that is the caller's keeps the later
-- end of its two times to live: a request that comes late must not shorten an extension. Returns
-- the fence as text (without fencing, 1), nothing if the slot is taken, or an error. Then a slot
-- that was free is free again.
local function takeSlot(semaphore, slot, holder, value, ttlMillis, ts, fenceLife)
  local key = semaphore .. '#' .. slot
  if holder and holder ~= value then
    return nil
  elseif not holder then
    redis.call('SET', key, value, 'PX', ttlMillis)
  end
  local left = holder and redis.call('PTTL', key) or -1
  if left >= 0 and left < tonumber(ttlMillis) then
    redis.call('PEXPIRE', key, ttlMillis)
  end
  local fence = keepNumber(key, ttlMillis) or ts and raiseFence({ key }, ts, fenceLife) or 1
  if type(fence) == 'table' and not holder then
    redis.call('DEL', key)
  end
  return fence
end

-- takeAny takes the first free slot, beginning with a given one, unless the caller has a slot: then
-- that one. Returns the slot and its fence, nothing if none is free, or nil and an error.
local function takeAny(semaphore, permits, first, slots, value, ...)
  for slot = 1, permits do
    if slots[slot] == value then
      first = slot
      break
    end
  end
  for i = 0, permits - 1 do
    local slot = (first - 1 + i) % permits + 1
    local fence = takeSlot(semaphore, slot, slots[slot], value, ...)
    if type(fence) == 'table' then
      return nil, fence
    elseif fence then
      slots[slot] = value
      return slot, fence
    end
  end
end

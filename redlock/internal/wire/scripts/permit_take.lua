-- requires fence permits
-- admit returns nothing if this node takes requests for a number of permits. While a slot of
-- another number is taken here, it returns that number. So the node knows k for as long as the key
-- of a slot lives that was granted under k. The key with k outlives the slots: its life is longer
-- than any TTL.
local function admit(semaphore, permits, lifeMillis)
  local key = 'redquorum:permits:' .. semaphore
  local known = redis.call('GET', key)
  if known == permits then
    return nil
  end
  if known then
    local most = string.find(known, '^%d%d?%d?%d?$') and tonumber(known) or mostPermits
    if most < 1 or most > mostPermits then
      most = mostPermits -- not written by this library: any slot may be taken
    end
    if redis.call('EXISTS', unpack(slotKeys(semaphore, most))) > 0 then
      return most
    end
  end
  -- Those that wait under another number learn of this one when they poll.
  redis.call('SET', key, permits, 'PX', lifeMillis)
  redis.pcall('DEL', 'redquorum:permit:wait:' .. semaphore)
end

-- takeSlot takes a slot that is free or the caller's. A slot that is the caller's keeps the later
-- end of its two times to live: a request that comes late must not shorten an extension. Returns
-- the fence as text (without fencing, 1), nothing if the slot is taken, or an error. Then a slot
-- that was free is free again.
local function takeSlot(semaphore, slot, holder, value, ttlMillis, permitsLife, ts, fenceLife)
  local key = semaphore .. '#' .. slot
  if holder and holder ~= value then
    return nil
  elseif not holder and not redis.call('SET', key, value, 'NX', 'PX', ttlMillis) then
    return nil -- of another type
  end
  local left = holder and redis.call('PTTL', key) or -1
  if left >= 0 and left < tonumber(ttlMillis) then
    redis.call('PEXPIRE', key, ttlMillis)
  end
  local fence = redis.pcall('PEXPIRE', 'redquorum:permits:' .. semaphore, permitsLife)
  if type(fence) == 'number' then
    fence = ts and raiseFence({ key }, ts, fenceLife) or 1
  end
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

-- requires permits owner
-- How many permits has a semaphore here, who has them, and who waits for one?
--
-- KEYS[1]  the semaphore's key
-- Returns the number of permits, 0 if this node knows none; how many wait here, and the owners of
-- the oldest of them; and of each slot its value (nil if it is free), its time to live in
-- milliseconds (-1 when it does not expire), and its fencing counter (nil if there is none). What
-- the caller may not read beside the slots counts as nothing. Of long values it is the beginning,
-- because a client takes 1 MiB: of one slot 4,096 bytes, and less of many.
local known, list = redis.pcall('GET', 'redquorum:permits:' .. KEYS[1]), 'redquorum:permit:wait:' .. KEYS[1]
local waiting, owners, told = redis.pcall('ZCARD', list), {}, {}
for _, place in ipairs(redis.pcall('ZRANGE', list, 0, 15)) do -- of an error, nothing
  if isPreferred(place) then
    waiting = type(waiting) == 'number' and waiting - 1
  else
    owners[#owners + 1] = ownerOf(place)
  end
end
local permits = type(known) == 'string' and string.find(known, '^%d%d?%d?%d?$') and tonumber(known) or 0
if permits > mostPermits then
  permits = 0 -- not written by this library
end
local most = math.min(4096, math.floor(819200 / math.max(permits, 1)))
for slot, value in ipairs(permits > 0 and readSlots(KEYS[1], permits) or {}) do
  local key = KEYS[1] .. '#' .. slot
  local fence = redis.pcall('GET', 'redquorum:fence:' .. key)
  told[3 * slot - 2] = value and string.sub(value, 1, most)
  told[3 * slot - 1] = value and redis.call('PTTL', key) or -2
  told[3 * slot] = counterOf(fence)
end
return { permits, type(waiting) == 'number' and waiting or 0, owners, told }

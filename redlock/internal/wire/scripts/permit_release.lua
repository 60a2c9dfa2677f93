-- requires permits adopted
-- Release what a value has of a semaphore: compare, and hand over or delete. It looks at all slots,
-- because a request for any slot may have been answered late, or not at all. The number of permits
-- goes with the last of them: so many names leave nothing, and a refused number does not stay.
--
-- KEYS[1]  the semaphore's key
-- ARGV[1]  the value that the caller set
-- ARGV[2]  the grace of a waiter that gets a slot, in milliseconds
-- ARGV[3]  the number of permits
-- ARGV[4]  a slot to keep, or 0
-- ARGV[5]  the slot that the caller held, or 0. A note that somebody is adopting it from the caller
--          is deleted, too
-- ARGV[6]  the caller's process, if this attempt may be on the wait list: it leaves it
-- Returns 0 when the caller had no slot to release, 2 when one was handed over, otherwise 1.
local semaphore, permits, keep = KEYS[1], tonumber(ARGV[3]), tonumber(ARGV[4])
if ARGV[6] then
  leave('redquorum:permit:wait:' .. semaphore, ARGV[6] .. ':' .. ARGV[1])
end
local slots, how, taken = readSlots(semaphore, permits), 0, false
for slot = 1, permits do
  if slot ~= keep and slots[slot] == ARGV[1] then
    how = math.max(how, handSlot(semaphore, slot, ARGV[2], ARGV[1]))
  else
    taken = taken or slots[slot]
  end
end
if how == 1 and not taken and numberOf(semaphore) == permits then -- no slot of that number is taken
  redis.pcall('DEL', 'redquorum:permits:' .. semaphore)
end
local held = tonumber(ARGV[5])
local note = how == 0 and slots[held] and noteOf(semaphore .. '#' .. held, ARGV[1], slots[held])
if note then
  redis.pcall('DEL', note)
end
return how

-- requires permits
-- Release what a value has of a semaphore: compare, and hand over or delete. It looks at all slots,
-- because a request for any slot may have been answered late, or not at all.
--
-- KEYS[1]  the semaphore's key
-- ARGV[1]  the value that the caller set
-- ARGV[2]  the grace of a waiter that gets a slot, in milliseconds
-- ARGV[3]  the number of permits
-- ARGV[4]  a slot to keep, or 0
-- ARGV[5]  the caller's process, if this attempt may be on the wait list: it leaves it
-- Returns 0 when the caller had no slot to release, 2 when one was handed over, otherwise 1.
local semaphore, permits, keep = KEYS[1], tonumber(ARGV[3]), tonumber(ARGV[4])
if ARGV[5] then
  redis.pcall('ZREM', 'redquorum:permit:wait:' .. semaphore, ARGV[5] .. ':' .. ARGV[1])
end
local slots, how = readSlots(semaphore, permits), 0
for slot = 1, permits do
  if slot ~= keep and slots[slot] == ARGV[1] then
    how = math.max(how, handSlot(semaphore, slot, ARGV[2]))
  end
end
return how

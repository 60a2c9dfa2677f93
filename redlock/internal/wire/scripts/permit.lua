-- requires permit_take
-- Take one slot of a semaphore: any, or a certain one.
--
-- KEYS[1]  the semaphore's key
-- ARGV[1]  the value to set
-- ARGV[2]  time to live in milliseconds
-- ARGV[3]  the grace of a waiter that gets a slot the caller gives up, in milliseconds
-- ARGV[4]  the number of permits
-- ARGV[5]  how long that number lives, in milliseconds: longer than any time to live
-- ARGV[6]  the slot to try first
-- ARGV[7]  1 if it must be that one, otherwise 0. Then other slots that the value has here are
--          given up
-- ARGV[8]  with fencing: the caller's wall clock in microseconds
-- ARGV[9]  with fencing: how long the counter lives, in milliseconds
-- Returns the slot that the caller now holds, or 0; its fence as text (without fencing, 1), or 0;
-- and for each slot 1 if it is free, 0 if not, as one text. Returns -1 and the number of permits
-- that this node knows if that is another one, and a slot is taken.
local semaphore, value, first = KEYS[1], ARGV[1], tonumber(ARGV[6])
local other = admit(semaphore, ARGV[4], ARGV[5])
if other then
  return { -1, other }
end
local permits = tonumber(ARGV[4])
local slots = readSlots(semaphore, permits)
local got, fence
if ARGV[7] == '1' then
  for slot = 1, permits do
    if slot ~= first and slots[slot] == value then
      slots[slot] = handSlot(semaphore, slot, ARGV[3]) == 2
    end
  end
  fence = takeSlot(semaphore, first, slots[first], value, ARGV[2], ARGV[5], ARGV[8], ARGV[9])
  got = fence and first
  slots[first] = slots[first] or got
else
  got, fence = takeAny(semaphore, permits, first, slots, value, ARGV[2], ARGV[5], ARGV[8], ARGV[9])
end
if type(fence) == 'table' then
  return fence
end
local free = {}
for slot = 1, permits do
  free[slot] = slots[slot] and '0' or '1'
end
return { got or 0, fence or 0, table.concat(free) }

-- requires permit_take
-- Take one slot of a semaphore: any, or a certain one.
--
-- KEYS[1]  the semaphore's key
-- ARGV[1]  the value to set
-- ARGV[2]  time to live in milliseconds
-- ARGV[3]  the grace of a waiter that gets a slot the caller gives up, in milliseconds
-- ARGV[4]  the number of permits
-- ARGV[5]  the slot to try first
-- ARGV[6]  1 if it must be that one, otherwise 0. Then other slots that the value has here are
--          given up
-- ARGV[7]  with fencing: the caller's wall clock in microseconds
-- ARGV[8]  with fencing: how long the counter lives, in milliseconds
-- Returns the slot that the caller now holds, or 0; its fence as text (without fencing, 1), or 0;
-- and for each slot 1 if it is free, 0 if not, as one text. If what it may take is no lock, and it got
-- none, the error. Returns -1 and the number of permits that this node knows if that is another
-- one, and a slot is taken.
local semaphore, value, first = KEYS[1], ARGV[1], tonumber(ARGV[5])
local refusal = admit(semaphore, ARGV[4], ARGV[2])
if refusal then
  return refusal
end
local permits = tonumber(ARGV[4])
local slots = readChoices(slotKeys(semaphore, permits))
local got, fence
if ARGV[6] == '1' then
  for slot = 1, permits do
    if slot ~= first and slots[slot] == value then
      slots[slot] = handSlot(semaphore, slot, ARGV[3]) == 2
    end
  end
  fence = takeSlot(semaphore, first, slots[first], value, ARGV[2], ARGV[7], ARGV[8])
  got = fence and first
  slots[first] = slots[first] or got
else
  got, fence = takeAny(semaphore, permits, first, slots, value, ARGV[2], ARGV[7], ARGV[8])
end
return chosen(got, fence, slots, ARGV[6] == '1' and first or 0)

-- Return how long until a task is due.
--
-- KEYS     as in change.lua
-- Returns microseconds, an hour at most; zero or less if a task is due, and nil if the queue is
-- empty.
local head = headOf()
if not head then
  return nil
end
return math.ceil(math.max(math.min(head * 1000000 - nowMicros(), 3600000000), -1))

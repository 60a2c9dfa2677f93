-- How long until something is due?
--
-- KEYS     as in change.lua
-- Returns microseconds, not more than an hour; zero or less when something is due, and nothing when the queue is empty.
local head = headOf()
if not head then
  return nil
end
return math.ceil(math.max(math.min(head * 1000000 - nowMicros(), 3600000000), -1))

-- requires list_life
-- Put a holder before all who wait for its lock, at a node that refused to extend it. A waiter has
-- the vote there for the moment. It will give it back, because a quorum refuses it, and the next
-- one then had it, and so on: the holder would stay without it for as long as others wait. Now the
-- next hand-over gives it to the holder, for the rest of its time to live (handover.lua).
--
-- KEYS     the lock's keys; for a permit, that of its semaphore
-- ARGV[1]  the holder's value
-- ARGV[2]  its place on the lists (preferred.lua)
-- ARGV[3]  its time to live in milliseconds
-- ARGV[4]  for a permit, its slot
-- ARGV[5]  for a permit, the number of permits. Under another number the slot is not the holder's:
--          handed over, it would keep that number in force
-- Returns 1.
--
-- The vote is the holder's like any that was handed over: nobody else has it since, and it counts
-- from the next extension that finds it. A holder that has lost its lock, or released it, leaves
-- the list with its release, which comes behind this. If it died, the vote ends when its last
-- extension would have.
local time = redis.pcall('TIME')
if time.err then
  return 1
end
local ends = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[3]
local score = string.format('-%.0f', ends * 1024 + (ARGV[4] or 1) - 1)
for _, key in ipairs(KEYS) do
  local list = (ARGV[4] and 'redquorum:permit:wait:' or 'redquorum:wait:') .. key
  local holder = redis.call('GET', ARGV[4] and key .. '#' .. ARGV[4] or key)
  local number = ARGV[4] and redis.pcall('GET', 'redquorum:permits:' .. key)
  if holder and holder ~= ARGV[1] and (type(number) ~= 'string' or number == ARGV[5]) then
    redis.pcall('ZADD', list, score, ARGV[2])
    redis.pcall('PEXPIRE', list, listLife)
    if not ARGV[4] then
      redis.pcall('SET', 'redquorum:waits:' .. key, '', 'PX', listLife) -- for free.lua
    end
  end
end
return 1

-- Count what is in the queue.
--
-- KEYS     as in change.lua
-- Returns how many tasks are to be due, are due, run (as far as is known of 10,000), and are dead.
-- One that was enqueued again while it runs is no longer counted with those that run.
local now = scoreOf(nowMicros())
local due = redis.call('ZCOUNT', KEYS[1], '-inf', now)
local leases = found('ZRANGEBYSCORE', KEYS[5], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 10000) or {}
local running = 0
for i = 1, #leases, 2 do
  local score = redis.call('ZSCORE', KEYS[1], leases[i])
  if score and tonumber(score) == tonumber(leases[i + 1]) then
    running = running + 1
  end
end
return { redis.call('ZCARD', KEYS[1]) - due - running, due, running, found('ZCARD', KEYS[6]) or 0 }

-- requires fenced fence try
-- Take the keys of many locks, with fencing: each as acquire.lua takes one. All keys differ.
--
-- KEYS[i]        a lock's key
-- ARGV[4i-3]     the value to set
-- ARGV[4i-2]     its time to live in milliseconds
-- ARGV[4i-1]     the caller's wall clock in microseconds
-- ARGV[4i]       how long the counter lives, in milliseconds
-- Returns for each key what acquire.lua returns, or its error; then it is not taken. The failure of
-- one key does not affect the others.
local votes, now = {}, timeNow()
for i = 1, #KEYS do
  local key, ts, lifeMillis = KEYS[i], ARGV[4 * i - 1], ARGV[4 * i]
  local set = call('SET', key, ARGV[4 * i - 3], 'NX', 'PX', ARGV[4 * i - 2])
  if not set then
    votes[i] = 0
  elseif set.err then
    votes[i] = set
  elseif stepFence(key, ts, lifeMillis, now) then
    votes[i] = set
  else
    votes[i] = try(raiseFence, { key }, ts, lifeMillis)
    if type(votes[i]) == 'table' then
      call('DEL', key)
    end
  end
end
return votes

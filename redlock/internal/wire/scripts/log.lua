-- Add an entry to the log. A node keeps the newest, in the order in which they came, whatever its
-- clock did meanwhile: the score of an entry is the time, or one above that of the newest. Scores
-- that no clock can have are others'.
--
-- KEYS[1]  the log
-- ARGV[1]  the entry
-- ARGV[2]  how many entries it keeps
-- ARGV[3]  how long it lives after the last of them, in milliseconds
-- Returns 1. An entry that may not push out the oldest is not added.
local time, most = redis.call('TIME'), 2 ^ 52
local score = time[1] * 1000 + math.floor(time[2] / 1000)
local newest = redis.pcall('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
if (tonumber(newest[2]) or 0) >= most then
  redis.pcall('ZREMRANGEBYSCORE', KEYS[1], most, 'inf')
  newest = redis.pcall('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
end
score = math.max(score, (tonumber(newest[2]) or 0) + 1)
local done = redis.pcall('ZADD', KEYS[1], score, ARGV[1])
if type(done) == 'table' and string.sub(done.err, 1, 9) == 'WRONGTYPE' then -- somebody else's
  redis.call('DEL', KEYS[1])
  done = redis.pcall('ZADD', KEYS[1], score, ARGV[1])
end
if type(done) == 'table' then
  return done
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local number = redis.pcall('ZCARD', KEYS[1])
if type(number) == 'table' or number > tonumber(ARGV[2]) then
  local popped = type(number) == 'table' and number or redis.pcall('ZPOPMIN', KEYS[1])
  if popped.err then
    redis.call('ZREM', KEYS[1], ARGV[1])
    return popped
  end
end
return 1

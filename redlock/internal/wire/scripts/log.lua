-- Add an entry to the log. A node keeps the newest, in the order in which they came.
--
-- KEYS[1]  the log
-- ARGV[1]  the entry
-- ARGV[2]  how many entries it keeps
-- ARGV[3]  how long it lives after the last of them, in milliseconds
-- Returns 1. An entry that may not push out the oldest is not added.
local time = redis.call('TIME')
local done = redis.pcall('ZADD', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1])
if type(done) == 'table' and string.sub(done.err, 1, 9) == 'WRONGTYPE' then -- somebody else's
  redis.call('DEL', KEYS[1])
  done = redis.pcall('ZADD', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1])
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

-- Record the term of a leader, beside the key of its lock. A node keeps the newest terms.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the term
-- ARGV[2]  the term, a space and the lock's value
-- ARGV[3]  how long the record lives, in milliseconds
-- ARGV[4]  how many terms it keeps
-- Returns 1. A term that may not push out the oldest is not recorded. A key that is no lock has no
-- terms: GET fails then.
redis.call('GET', KEYS[1])
local record = 'redquorum:terms:' .. KEYS[1]
local done = redis.pcall('ZADD', record, ARGV[1], ARGV[2])
if type(done) == 'table' and string.sub(done.err, 1, 9) == 'WRONGTYPE' then -- somebody else's
  redis.call('DEL', record)
  done = redis.pcall('ZADD', record, ARGV[1], ARGV[2])
end
if type(done) == 'table' then
  return done
end
local number = redis.pcall('PEXPIRE', record, ARGV[3])
if type(number) == 'number' then
  number = redis.pcall('ZCARD', record)
end
if type(number) == 'number' and number > tonumber(ARGV[4]) then
  number = redis.pcall('ZPOPMIN', record)
end
if type(number) == 'table' and number.err then -- nothing without an end or a bound is left
  redis.call('ZREM', record, ARGV[2])
  return number
end
return 1

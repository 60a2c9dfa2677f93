-- requires handover
-- Take a key from whoever holds it, and hand it over or delete it.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the grace of a waiter that gets the key, in milliseconds
-- ARGV[2]  and so on: the only values that are taken away; of long ones the first 4,096 bytes. With
--          none of them, any value is
-- Returns the value, of a long one the first 4,096 bytes, and how long it would have lived in
-- milliseconds (-1 when it did not expire); nothing when the key was free. A value that is not to be
-- taken away stays, and 0 follows. A key that is no lock is left alone: GET fails then.
dropPreferred('redquorum:wait:' .. KEYS[1])
local value = redis.call('GET', KEYS[1])
if not value then
  return {}
end
local left, meant = redis.pcall('PTTL', KEYS[1]), #ARGV < 2
left, value = type(left) == 'number' and left or -1, string.sub(value, 1, 4096)
for i = 2, #ARGV do
  meant = meant or value == ARGV[i]
end
if not meant then
  return { value, left, 0 }
end
handOver(KEYS[1], ARGV[1])
return { value, left }

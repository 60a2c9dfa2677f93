-- Compare and set the memory marker: the text by which a server proves that it still has what it
-- held.
--
-- KEYS[1]  the memory key
-- ARGV[1]  the marker that the caller saw; empty if there was none, ? if the key has another type
-- ARGV[2]  what the new marker begins with; empty to only read
-- ARGV[3]  the rest of it
-- ARGV[4]  0, or for how many milliseconds the node does not vote: then the end of that time comes
--          between the two
-- ARGV[5]  the earliest time for the change, in milliseconds since 1970
-- Returns the current marker, and this server's time in milliseconds since 1970 as text.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local marker = redis.pcall('GET', KEYS[1])
if not marker then
  marker = ''
elseif type(marker) ~= 'string' then
  if string.sub(marker.err, 1, 9) ~= 'WRONGTYPE' then
    return marker
  end
  marker = '?'
end
if ARGV[2] ~= '' and marker == ARGV[1] and now >= tonumber(ARGV[5]) then
  marker = ARGV[2] .. ' ' .. ARGV[3]
  if ARGV[4] ~= '0' then
    marker = string.format('%s until %.0f %s', ARGV[2], now + ARGV[4], ARGV[3])
  end
  redis.call('SET', KEYS[1], marker)
end
return { marker, string.format('%.0f', now) }

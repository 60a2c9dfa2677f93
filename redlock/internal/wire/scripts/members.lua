-- Compare and set what a master knows of its cluster: the memory marker, and the register with the
-- list of members. Whoever changes them has read both; so one step of a protocol is one comparison,
-- and its rules are in Go (package members).
--
-- KEYS[1]  the memory key
-- KEYS[2]  the register
-- ARGV[1]  the marker that the caller saw; empty if there was none, ? if the key has another type
-- ARGV[2]  the new marker; empty to only read
-- ARGV[3]  the register that the caller saw, as the marker
-- ARGV[4]  the new register, behind its first line; empty to leave it
-- ARGV[5]  its first line, which is a time; empty for now
-- ARGV[6]  the earliest time for the change, in milliseconds since 1970
-- ARGV[7]  the latest; 0 for none
-- Returns the current marker and register, and this server's time in milliseconds since 1970.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function read(key)
  local text = redis.pcall('GET', key)
  if not text then
    return ''
  elseif type(text) == 'string' then
    return text
  end
  return string.sub(text.err, 1, 9) == 'WRONGTYPE' and '?' or text
end

local marker, register = read(KEYS[1]), read(KEYS[2])
if type(marker) == 'table' then
  return marker
elseif type(register) == 'table' then
  return register
end
local latest = tonumber(ARGV[7])
if ARGV[2] ~= '' and marker == ARGV[1] and register == ARGV[3] and
  now >= tonumber(ARGV[6]) and (latest == 0 or now <= latest) then
  marker = ARGV[2]
  redis.call('SET', KEYS[1], marker)
  if ARGV[4] ~= '' then
    register = (ARGV[5] == '' and string.format('%.0f', now) or ARGV[5]) .. '\n' .. ARGV[4]
    redis.call('SET', KEYS[2], register)
  end
end
return { marker, register, string.format('%.0f', now) }

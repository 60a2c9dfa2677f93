-- The common case first: keys that their callers hold, and nobody waits for. All of them take two
-- commands. Without the right to MGET each key takes the long way.
local votes, free, names = {}, {}, {}
for i, key in ipairs(KEYS) do
  names[i] = key
  names[#KEYS + i] = 'redquorum:waits:' .. key
end
local held = redis.pcall('MGET', unpack(names))
for i, key in ipairs(KEYS) do
  if held[i] == ARGV[2 * i - 1] and not held[#KEYS + i] then
    free[#free + 1] = key
    votes[i] = 1
  end
end
if free[1] and type(redis.pcall('DEL', unpack(free))) == 'table' then
  free, votes = {}, {} -- refused: each key tells why
end
if #free == #KEYS then
  return votes
end

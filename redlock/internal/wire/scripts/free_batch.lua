-- The common case first: all callers hold their keys, and nobody waits for any of them. That takes
-- three commands. Then one number says for all that they released. If it is otherwise with some of
-- the keys, the others are released together. Without the right to MGET each takes the long way.
local count, signs = #KEYS, {}
for i = 1, count do
  signs[i] = 'redquorum:waits:' .. KEYS[i]
end
local held, quiet = redis.pcall('MGET', unpack(KEYS)), redis.pcall('EXISTS', unpack(signs)) == 0
local all = quiet
for i = 1, count do
  all = all and held[i] == ARGV[2 * i - 1]
end
if all and type(redis.pcall('DEL', unpack(KEYS))) == 'number' then
  return 1
end
local votes, free = {}, {}
for i = 1, all and 0 or count do -- if DEL was refused, each key tells why
  if held[i] == ARGV[2 * i - 1] and (quiet or redis.pcall('EXISTS', signs[i]) == 0) then
    free[#free + 1] = KEYS[i]
    votes[i] = 1
  end
end
if free[1] and type(redis.pcall('DEL', unpack(free))) == 'table' then
  votes = {}
end

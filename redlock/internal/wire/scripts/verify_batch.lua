-- Which of these keys do their callers hold?
--
-- KEYS[i]  a lock's key
-- ARGV[i]  the value that its caller set
-- Returns for each key 1 when it holds the value, 0 otherwise, or its error.
local votes = {}
for i, key in ipairs(KEYS) do
  local holder = redis.pcall('GET', key)
  votes[i] = type(holder) == 'table' and holder or holder == ARGV[i] and 1 or 0
end
return votes

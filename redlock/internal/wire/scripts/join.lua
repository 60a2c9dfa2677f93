-- requires fence lasting
-- Make one lock from locks of single names, all keys or none. A key that is free here, because this
-- node was not among those that granted that name, is taken.
--
-- KEYS            the lock's keys
-- ARGV[1]         the value to set
-- ARGV[2]         time to live in milliseconds
-- ARGV[2+i]       the value of the lock of the name of KEYS[i]
-- ARGV[3+n], [4+n]  with n keys and fencing: the caller's wall clock in microseconds, and how
--                 long the counters live, in milliseconds
-- Returns 0 when somebody else holds one. When the caller now holds all: the fence as text, or 1
-- without fencing. If it fails, no key has the value.
local parts = {}
for i, key in ipairs(KEYS) do
  local holder = redis.call('GET', key)
  parts[i] = holder
  if holder and holder ~= ARGV[2 + i] then
    return 0
  end
end
local wall, life = ARGV[3 + #KEYS], ARGV[4 + #KEYS]
local fence = wall and raiseFence(KEYS, wall, life) or 1
local failed = type(fence) == 'table' and fence
for at, key in ipairs(KEYS) do
  local done = failed or redis.pcall('SET', key, ARGV[1], 'PX', parts[at] and lasting(key, ARGV[2]) or ARGV[2])
  if done.err then
    for undo = 1, at - 1 do
      redis.call('DEL', KEYS[undo])
    end
    return done
  end
end
return fence

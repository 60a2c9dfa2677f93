-- requires fenced
-- The common case first: one free key. (acquire.lua begins with this.)
local mine = not KEYS[2]
if mine then
  local set = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
  if not set then
    return 0
  end
  if not ARGV[3] then
    return 1
  end
  if stepFence(KEYS[1], ARGV[3], ARGV[4], timeNow()) then
    return set
  end
end

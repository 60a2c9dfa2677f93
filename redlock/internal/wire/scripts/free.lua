-- The common case first: one key, the caller's, and nobody waits for it. The sign that somebody does is deleted in the same step as the
-- key, so that looking for it costs nothing; handOver sets it again. Who may not touch the sign goes the long way. (release.lua
-- begins with this.)
local first = redis.pcall('GET', KEYS[1])
if first == ARGV[1] and not KEYS[2] and not ARGV[3] then
  local deleted = redis.pcall('DEL', KEYS[1], 'redquorum:waits:' .. KEYS[1])
  if deleted == 1 then
    return 1
  end
end

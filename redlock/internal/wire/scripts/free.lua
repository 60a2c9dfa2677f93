-- The common case first: one key, held by the caller, and nobody waits for it. The sign that
-- somebody waits is deleted in the same step as the key, so looking for it costs nothing; handOver
-- sets it again. A caller that may not touch the sign takes the long way. (release.lua begins with
-- this.)
local first = redis.pcall('GET', KEYS[1])
if first == ARGV[1] and not KEYS[2] and not ARGV[3] then
  local deleted = redis.pcall('DEL', KEYS[1], 'redquorum:waits:' .. KEYS[1])
  if deleted == 1 then
    return 1
  end
end

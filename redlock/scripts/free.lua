-- The common case first: one key, the caller's, and nobody waits for it. (release.lua begins with this.)
local first = redis.call('GET', KEYS[1])
if first == ARGV[1] and not KEYS[2] and not ARGV[3]
    and redis.pcall('EXISTS', 'redquorum:wait:' .. KEYS[1]) == 0 then
  return redis.call('DEL', KEYS[1])
end

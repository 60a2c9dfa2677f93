-- requires fence raise_one try
-- Raise the counters of many locks: each as raise.lua raises that of one. All keys differ.
--
-- KEYS[i]      a lock's key
-- ARGV[3i-2]   the value that its caller set
-- ARGV[3i-1]   the token
-- ARGV[3i]     how long the counter lives, in milliseconds
-- Returns for each key what raise.lua returns, or its error. The failure of one key does not affect
-- the others.
local limit = limitAt(redis.call('TIME'))
local function raise(key, value, token, lifeMillis)
  local no = mayRaise(key, value, tonumber(token), lifeMillis, limit)
  if no then
    return no
  end
  redis.call('SET', 'redquorum:fence:' .. key, token, 'PX', lifeMillis)
  return 1
end
local votes = {}
for i, key in ipairs(KEYS) do
  votes[i] = try(raise, key, ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i])
end
return votes

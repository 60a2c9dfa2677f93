-- Who holds a key, for how long, and which leaders of that name were recorded lately?
--
-- KEYS[1]  the lock's key
-- ARGV[1]  only terms above this one
-- ARGV[2]  how many of the newest terms at most
-- Returns its value, its time to live in milliseconds (-2 when absent, -1 when it does not expire),
-- and what was recorded: each term, a space and the value of its lock, in the order of the terms.
local all = redis.pcall('ZRANGE', 'redquorum:terms:' .. KEYS[1], '-' .. ARGV[2], '-1')
local some = {}
for _, entry in ipairs(all) do -- of an error, nothing
  if #entry <= 2048 and (tonumber(string.match(entry, '^%d+')) or 0) > tonumber(ARGV[1]) then
    some[#some + 1] = entry
  end
end
local holder = redis.call('GET', KEYS[1])
holder = holder and string.sub(holder, 1, 4096) -- no lock has a longer value
return { holder, redis.call('PTTL', KEYS[1]), some }

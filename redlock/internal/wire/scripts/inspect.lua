-- requires list_life preferred shared owner
-- Who holds a key, for how long, what is its fence, and who waits?
--
-- KEYS[1]  a lock's key
-- Returns its value, its time to live in milliseconds (-2 when absent, -1 when it does not expire),
-- its fencing counter (nil if there is none), how many wait for it here, the owners of the oldest of
-- them, and how many terms of an election are on record: they outlive the counter. What the caller
-- may not read counts as nothing. If readers hold the key, a seventh entry has the value of each that
-- is alive, followed by its time to live: of 2,000 at most, those that live longest, and no more
-- than 800 KiB, because a client takes 1 MiB.
local fence = redis.pcall('GET', 'redquorum:fence:' .. KEYS[1])
local list = 'redquorum:wait:' .. KEYS[1]
local waiting = redis.pcall('ZCARD', list)
for _, place in ipairs({ 'others', 'anyone' }) do -- not waiters: see others.lua
  if type(waiting) == 'number' and type(redis.pcall('ZSCORE', list, place)) == 'string' then
    waiting = waiting - 1
  end
end
local owners = {}
for _, place in ipairs(redis.pcall('ZRANGE', list, 0, 15)) do -- of an error, nothing
  if isPreferred(place) then
    waiting = type(waiting) == 'number' and waiting - 1
  else
    owners[#owners + 1] = ownerOf(place)
  end
end
local holder, left = redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])
holder = holder and string.sub(holder, 1, 4096) -- no lock has a longer value
local alive = holder == marker and {} or nil
if alive then
  local members, now = redis.pcall('ZRANGE', readersOf(KEYS[1]), -2000, -1, 'WITHSCORES'), millis()
  local first, size = #members + 1, 0
  while first > 2 and size + #members[first - 2] <= 819200 do
    first = first - 2
    size = size + #members[first]
  end
  for i = first, #members, 2 do
    local last = tonumber(members[i + 1])
    if last >= now and last < 9007199254740992 then
      alive[#alive + 1] = members[i]
      alive[#alive + 1] = last - now
    end
  end
end
local terms = redis.pcall('ZCARD', 'redquorum:terms:' .. KEYS[1])
return {
  holder, left, counterOf(fence), type(waiting) == 'number' and waiting or 0, owners,
  type(terms) == 'number' and terms or 0, alive,
}

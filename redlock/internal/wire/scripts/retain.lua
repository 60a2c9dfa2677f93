-- requires handover release_one
-- Release a lock within its minimum hold: its keys stay taken for the rest of it, and are given to
-- nobody. This comes before release.lua, whose arguments it adds to, and takes the place of its
-- releaseOne.
--
-- ARGV[3]  the caller's process, or empty if this attempt is on no wait list
-- ARGV[4]  "announced" if it may have kept readers out, or empty
-- ARGV[5]  the rest in milliseconds when the caller wrote this; 0 if the minimum hold is over, and
--          the keys are released as ever
--
-- The rest counts from now. That is later than when it was written, so it can only end late. But it
-- never prolongs a key: a key was set for the minimum hold or longer, and each extension gave it
-- the rest or more, so its own end is not too early either. The earlier of the two is right,
-- however late this arrives, and however often.
local first = redis.pcall('GET', KEYS[1])
local releaseAtOnce, rest = releaseOne, tonumber(ARGV[5])

-- shorten makes a key end with the rest, unless it ends before. It returns the error, or how many
-- milliseconds earlier the key ends now, as far as is known.
local function shorten(key)
  local left = redis.pcall('PTTL', key)
  if type(left) == 'number' and left >= 0 and left <= rest then
    return 0
  end
  local done = redis.pcall('PEXPIRE', key, ARGV[5])
  return type(done) == 'table' and done or type(left) == 'number' and left >= 0 and left - rest or listLife
end

local function releaseOne(key, value, graceMillis, holder)
  if rest <= 0 or type(holder) == 'table' then
    return releaseAtOnce(key, value, graceMillis, holder)
  elseif holder == value then
    local earlier = shorten(key)
    if type(earlier) == 'table' then
      return earlier
    elseif earlier > 20 then -- not because of a round trip
      wakeOldest(key)
    end
    return 1
  elseif not holder then
    return 0
  end
  local note = noteOf(key, value, holder)
  if note then -- an adoption that fails gives the rest back
    shorten(note)
  end
  return 0
end

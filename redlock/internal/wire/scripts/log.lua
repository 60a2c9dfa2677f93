-- Add an entry to the log. A node keeps the newest, in the order in which they came, whatever its
-- clock did meanwhile: the score of an entry is the time, or one above that of the newest. Scores
-- that no clock can have are others'.
--
-- KEYS[1]  the log, or of one name
-- KEYS[2]  of one name: the index of such logs
-- KEYS[3]  if the entry is to have the holder: the lock's key
-- ARGV[1]  the entry
-- ARGV[2]  how many entries it keeps
-- ARGV[3]  how long it lives after the last of them, in milliseconds
-- ARGV[4]  of one name: what is in the index, the log of its runs
-- ARGV[5]  what ends the key of that of its misses
-- ARGV[6]  how many names the index has; beyond that, the one that was used longest ago is forgotten
-- Returns 1. An entry that may not push out the oldest is not added, nor one that may not be indexed.
local time, most = redis.call('TIME'), 2 ^ 52
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Adds a member to a bounded set, as its newest. Returns an error, or what was pushed out.
local function add(key, member, bound)
  local newest = redis.pcall('ZRANGE', key, -1, -1, 'WITHSCORES')
  if (tonumber(newest[2]) or 0) >= most then
    redis.pcall('ZREMRANGEBYSCORE', key, most, 'inf')
    newest = redis.pcall('ZRANGE', key, -1, -1, 'WITHSCORES')
  end
  local score = math.max(now, (tonumber(newest[2]) or 0) + 1)
  local done = redis.pcall('ZADD', key, score, member)
  if type(done) == 'table' and string.sub(done.err, 1, 9) == 'WRONGTYPE' then -- somebody else's
    redis.call('DEL', key)
    done = redis.pcall('ZADD', key, score, member)
  end
  if type(done) == 'table' then
    return done
  end
  redis.call('PEXPIRE', key, ARGV[3])
  local number = redis.pcall('ZCARD', key)
  if type(number) == 'number' and number <= tonumber(bound) then
    return {}
  end
  local popped = type(number) == 'table' and number or redis.pcall('ZPOPMIN', key)
  if popped.err then
    redis.call('ZREM', key, member)
  end
  return popped
end

if KEYS[2] then
  local forgotten = add(KEYS[2], ARGV[4], ARGV[6])
  if forgotten.err then
    return forgotten
  end
  -- Others write to the index, too: none but logs beside it go. What may not be deleted expires.
  local beside = string.sub(KEYS[2], 1, -#'#names' - 1)
  if forgotten[1] and string.sub(forgotten[1], 1, #beside) == beside then
    redis.pcall('DEL', forgotten[1])
    redis.pcall('DEL', forgotten[1] .. ARGV[5])
  end
end
if KEYS[3] then -- nothing by which it could be released
  local holder = redis.pcall('GET', KEYS[3])
  holder = type(holder) == 'string' and string.match(string.sub(holder, 1, 512), '|.*')
  if holder then
    ARGV[1] = ARGV[1] .. '\n' .. string.gsub(holder, ';token=.*', ';token=-')
  end
end
local pushed = add(KEYS[1], ARGV[1], ARGV[2])
return pushed.err and pushed or 1

-- The limit up to which a counter follows: 20 s ahead of this server's clock.
local function limitAt(time)
  return time[1] * 1000000 + time[2] + 20000000
end

-- mayRaise returns nothing if the counter of a key may be raised to the token, and otherwise what
-- raise.lua returns. See there.
local function mayRaise(key, value, token, lifeMillis, limit)
  local fence, failed = fenceAt(key)
  if failed then
    return failed
  end
  if redis.call('GET', key) ~= value or not fence or fence >= token then
    return 0
  end
  if token > limit and (fence <= limit or token > fence + lifeMillis * 1000) then
    return -1
  end
end

-- Give a key that is the caller's to the oldest of those who wait for it, or delete it. The one who gets it owns this node's
-- vote before anyone else can ask; he has the grace to confirm it (wait.lua), and if he sleeps that long, it is free.
-- Waiters whose process does not listen any more are dropped: a few at a time, the others poll. This runs for those who may
-- not publish or touch the list, too: then it deletes.
--
-- A value that is given is the caller's: where it is not of our form, nobody can be told from the
-- clients of other libraries, and they get no turn (others.lua).
--
-- Returns 2 when the key was handed over, 3 when it was left to others for a while, else 1.
local function handOver(key, graceMillis, own)
  local list, sign = 'redquorum:wait:' .. key, 'redquorum:waits:' .. key
  local how, life = 1, listLife
  for _ = 1, 64 do
    local oldest = redis.pcall('ZPOPMIN', list)
    local waiter = oldest[1]
    if not waiter then
      break
    end
    local colon = string.find(waiter, ':', 1, true) or 0 -- none: somebody else wrote it
    local process, value = string.sub(waiter, 1, colon - 1), string.sub(waiter, colon + 1)
    local heard = colon > 1 and publish(process, value)
    if heard ~= 0 and type(heard) == 'number' then
      local given = redis.pcall('SET', key, value, 'PX', graceMillis)
      if given.ok then
        how = 2
        break
      end
    elseif (waiter == 'others' or waiter == 'anyone') and not (own and isForeign(own)) then
      local turn, left = beginTurn(key, waiter, oldest[2])
      if turn then
        how, life = turn, left or life
        break
      end
    end
  end
  if how ~= 2 then
    redis.call('DEL', key)
  end
  -- The sign that somebody waits, which free.lua looks for, goes with the last one.
  if redis.pcall('EXISTS', list) == 1 then
    redis.pcall('SET', sign, '', 'PX', life)
  else
    redis.pcall('DEL', sign)
  end
  return how
end

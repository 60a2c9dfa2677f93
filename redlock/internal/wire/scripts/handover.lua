-- Give a key that the caller holds to its oldest waiter, or delete it. The waiter that gets it owns
-- this node's vote before anyone else can ask, and has the grace to confirm it (wait.lua); after
-- that the key is free. Waiters whose process is no longer subscribed are dropped: a few at a time,
-- the others poll. This also runs for callers that may not publish or touch the list; then it
-- deletes the key.
--
-- A value that is given is the caller's. If it does not have our form, clients of other libraries
-- cannot be told apart, and get no turn (others.lua).
--
-- A reader's place begins with a plus sign. If the oldest waiter is a reader, all readers up to the
-- next writer get the key together; staying says that other readers have it, and keep it.
--
-- Returns 2 when the key was handed over, 3 when it was left to others for a while, else 1.
local function handOver(key, graceMillis, own, staying)
  local list, sign = 'redquorum:wait:' .. key, 'redquorum:waits:' .. key
  local how, life = staying and 2 or 1, listLife
  for _ = 1, 64 do
    local oldest = redis.pcall('ZPOPMIN', list)
    local waiter = oldest[1]
    if not waiter then
      break
    end
    local reads = string.sub(waiter, 1, 1) == '+'
    local colon = string.find(waiter, ':', 1, true) or 0 -- none: not written by this library
    local process, value = string.sub(waiter, reads and 2 or 1, colon - 1), string.sub(waiter, colon + 1)
    if how == 2 and not reads and not (colon > 1 and listeners(process) == 0) then
      redis.pcall('ZADD', list, oldest[2], waiter) -- readers have the key: it waits for them
      break
    end
    local receivers = colon > 1 and publish(process, value)
    if receivers ~= 0 and type(receivers) == 'number' then
      if reads then
        how = pcall(serveReader, key, value, graceMillis, how == 2) and 2 or how
      else
        local given = redis.pcall('SET', key, value, 'PX', graceMillis)
        if given.ok then
          how = 2
          break
        end
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
  -- The sign that somebody waits, which free.lua looks for, goes with the last waiter.
  if redis.pcall('EXISTS', list) == 1 then
    redis.pcall('SET', sign, '', 'PX', life)
  else
    redis.pcall('DEL', sign)
  end
  return how
end

-- requires list_life publish place others shared preferred
-- Give a key that the caller holds to its oldest waiter, or delete it. The waiter that gets it owns
-- this node's vote before anyone else can ask, and has the grace to confirm it (wait.lua); after
-- that the key is free. Waiters whose process is no longer subscribed are dropped: a few at a time,
-- the others poll. This also runs for callers that may not publish or touch the list; then it
-- deletes the key.
--
-- A value that is given is the caller's. If it does not have our form, clients of other libraries
-- cannot be told apart, and get no turn (others.lua).
--
-- If the oldest waiter is a reader, all readers up to the next writer get the key together; staying
-- says that other readers have it, and keep it. That writer is told to ask again: until now it had
-- no reason to keep readers out (announce.lua), or, if exposed is set, the writer before it did
-- that and has left. At most 64 waiters are served at once, to keep the server free for others. Of
-- the readers behind them, those that confirm serve the next (shared_wait.lua).
--
-- A holder that lacks this vote comes before all waiters (preferred.lua), unless it is the caller.
--
-- Returns 2 when the key was handed over, 3 when it was left to others for a while, else 1.
local function handOver(key, graceMillis, own, staying, exposed)
  local list, sign = 'redquorum:wait:' .. key, 'redquorum:waits:' .. key
  local how, life, served, aside = staying and 2 or 1, listLife, false, {}
  for _ = 1, 64 do
    local oldest = redis.pcall('ZPOPMIN', list)
    local waiter = oldest[1]
    if not waiter then
      break
    end
    local prefers = isPreferred(waiter)
    local process, value, reads = readPlace(prefers and string.sub(waiter, 2) or waiter)
    local skip = how == 2 and (not process or prefers and not reads)
    if skip then -- the place of others, or of a writer that has a quorum: readers have the key
      aside[#aside + 1] = oldest
    elseif how == 2 and not reads and listeners(process) ~= 0 then
      putBack(list, oldest) -- readers have the key: it waits for them
      if served or exposed then
        askAgain(waiter)
      end
      break
    end
    local lasts, receivers = graceMillis, not skip and not prefers and process and publish(process, value)
    if prefers then
      lasts = not skip and value ~= own and preferredLeft(oldest[2])
      receivers = lasts and 1 or 0
    end
    if receivers ~= 0 and type(receivers) == 'number' then
      if reads then
        served = pcall(serveReader, key, value, lasts, how == 2)
        how = served and 2 or how
      else
        local given = redis.pcall('SET', key, value, 'PX', lasts)
        if given.ok then
          how = 2
          break
        end
      end
    elseif not skip and (waiter == 'others' or waiter == 'anyone') and not (own and isForeign(own)) then
      local turn, left = beginTurn(key, waiter, oldest[2])
      if turn then
        how, life = turn, left or life
        break
      end
    end
  end
  for _, place in ipairs(aside) do
    putBack(list, place)
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

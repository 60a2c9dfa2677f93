-- How long a wait list lives after the last request that touched it: longer than two polls of the
-- slowest waiter.
local listLife = 180000 -- milliseconds

-- putBack returns a place to its list. If it was the last, the list begins anew, without an end.
local function putBack(list, place)
  redis.pcall('ZADD', list, place[2], place[1])
  redis.pcall('PEXPIRE', list, listLife)
end

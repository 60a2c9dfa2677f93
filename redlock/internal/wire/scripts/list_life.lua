-- How long a wait list lives after the last request that touched it: longer than two polls of the
-- slowest waiter.
local listLife = 180000 -- milliseconds

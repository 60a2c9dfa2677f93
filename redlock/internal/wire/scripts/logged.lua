-- What is in the log?
--
-- KEYS[1]  the log
-- Returns its entries, the oldest first.
return redis.call('ZRANGE', KEYS[1], 0, -1)

-- Who holds a key, and for how long?
--
-- KEYS[1]  a lock's key
-- Returns its value and its time to live in milliseconds (-2 when absent, -1 when it does not expire).
return { redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]) }

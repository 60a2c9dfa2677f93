-- Remove the note of an adoption that stands.
--
-- KEYS[1]  the note
-- Returns 1 when there was one, 0 when there was none.
return redis.call('DEL', KEYS[1])

-- requires free_batch handover release_one try
-- Release the keys of many locks: each as release.lua releases one. All keys differ.
--
-- KEYS[i]       a lock's key
-- ARGV[2i-1]    the value that its caller set
-- ARGV[2i]      the grace of a waiter that gets it, in milliseconds
-- Returns for each key what release.lua returns, or its error; 1 if that is so for all of them. The
-- failure of one key does not affect the others.
for i, key in ipairs(KEYS) do
  votes[i] = votes[i] or try(releaseOne, key, ARGV[2 * i - 1], ARGV[2 * i], redis.pcall('GET', key))
end
return votes

-- Give readers a new time to live: extend.lua for readers.
--
-- KEYS[i]            a lock's key
-- ARGV[2i-1]         the value of its reader
-- ARGV[2i]           its time to live in milliseconds
-- Returns for each key: 1 when extended, 2 when healed, 0 when a writer has it, or the text of the
-- error if it failed. The failure of one key does not affect the others.
local votes = {}
for i, key in ipairs(KEYS) do
  local vote = try(extendReader, key, ARGV[2 * i - 1], ARGV[2 * i])
  votes[i] = type(vote) == 'table' and vote.err or vote
end
return votes

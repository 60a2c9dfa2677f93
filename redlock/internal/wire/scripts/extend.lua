-- requires extend_one
-- Give keys a new time to live, each if its caller holds it. An absent key is set again (healed):
-- this node forgot it, and counts as a holder like the others from the next round on.
--
-- KEYS[i]            a lock's key
-- ARGV[2i-1]         the value that its caller set
-- ARGV[2i]           its time to live in milliseconds; with a sign before it for other kinds of
--                    locks (extend_kinds.lua)
-- Returns the status "extended" if all were, which is the usual case and one short reply. Otherwise
-- for each key: 1 when extended, 2 when healed, 0 when somebody else holds it, or the text of the
-- error if it failed. The failure of one key (wrong type, out of memory) does not affect the
-- others.
local votes, all = {}, true
for i, key in ipairs(KEYS) do
  votes[i] = extendOne(key, ARGV[2 * i - 1], ARGV[2 * i])
  all = all and votes[i] == 1
end
return all and { ok = 'extended' } or votes

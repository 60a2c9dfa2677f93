-- requires extend_one
-- Give keys a new time to live, each if its caller holds it. A key that is absent is set again (a
-- heal) only for a caller that asks for that, because this node has told it that it lacks the key.
--
-- KEYS[i]            a lock's key
-- ARGV[2i-1]         the value that its caller set
-- ARGV[2i]           its time to live in milliseconds; with a sign before it for other kinds of
--                    locks (extend_kinds.lua), and with an exclamation mark before all to heal
-- Returns the status "extended" if all were, which is the usual case and one short reply. Otherwise
-- for each key: 1 when extended, 2 when it was absent, and is set now if it was to be healed, 0
-- when somebody else holds it, or the text of the error if it failed. The failure of one key (wrong
-- type, out of memory) does not affect the others.
local votes, all = {}, true
for i, key in ipairs(KEYS) do
  local how = ARGV[2 * i]
  local heals = string.byte(how) == 33
  votes[i] = extendOne(key, ARGV[2 * i - 1], heals and string.sub(how, 2) or how, heals)
  all = all and votes[i] == 1
end
return all and { ok = 'extended' } or votes

-- ownerOf returns the owner of a waiter, empty if its value has none, or nothing for what is no
-- waiter on a list: the place of others (others.lua). No waiter of ours has a longer place than
-- that: a client takes 1 MiB.
local function ownerOf(place)
  local value = string.match(string.sub(place, 1, 4096), '^[^:]*:(.*)$')
  return value and (string.match(value, '^[^|]*|(.*)$') or '')
end

-- counterOf returns a fencing counter as it was read, or false for what is none: an error, or a
-- text that is longer than any number below 2^53.
local function counterOf(fence)
  return type(fence) == 'string' and #fence <= 16 and fence
end

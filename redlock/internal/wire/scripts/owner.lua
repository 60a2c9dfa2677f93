-- ownerOf returns the owner of a waiter, empty if its value has none, or nothing for what is no
-- waiter on a list: the place of others (others.lua).
local function ownerOf(place)
  local value = string.match(place, '^[^:]*:(.*)$')
  return value and (string.match(value, '^[^|]*|(.*)$') or '')
end

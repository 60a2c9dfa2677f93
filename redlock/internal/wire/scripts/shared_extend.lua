-- requires shared try shared_extend_one extend_one
-- Extend readers together with mutexes. This comes before extend.lua, and takes the place of its
-- extendOne. Requests without readers are made without it.
local extendWriter = extendOne

local function extendOne(key, value, ttlMillis)
  if string.byte(ttlMillis) ~= 43 then -- a plus sign
    return extendWriter(key, value, ttlMillis)
  end
  local vote = try(extendReader, key, value, string.sub(ttlMillis, 2))
  return type(vote) == 'table' and vote.err or vote
end

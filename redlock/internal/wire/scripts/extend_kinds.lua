-- requires shared try shared_extend_one permit_extend_one extend_one
-- Extend readers and permits together with mutexes. This comes before extend.lua, and takes the
-- place of its extendOne. Requests for mutexes only are made without it.
local extendMutex = extendOne

local function extendOne(key, value, how, heals)
  local first, vote = string.byte(how), nil
  if first == 43 then -- a plus sign: a reader, and its time to live
    vote = try(extendReader, key, value, string.sub(how, 2), heals)
  elseif first == 35 then -- a number sign: a permit
    vote = try(extendPermit, key, value, heals, string.match(how, '^#(%d+) (%d+) (%d+)$'))
  else
    return extendMutex(key, value, how, heals)
  end
  return type(vote) == 'table' and vote.err or vote
end

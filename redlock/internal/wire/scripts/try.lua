-- try calls a function, and returns its result or its error as a reply. Redis raises a text before
-- version 7, and a reply since.
local function try(f, ...)
  local done, result = pcall(f, ...)
  if done or type(result) == 'table' then
    return result
  end
  return redis.error_reply(result)
end

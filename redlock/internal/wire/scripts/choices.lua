-- readChoices reads the keys of several locks, one of which is to be taken: what each holds, false
-- if it is free, or the error if it is no lock. (MGET calls that free.)
local function readChoices(keys)
  local holders, free = redis.call('MGET', unpack(keys)), {}
  for at, key in ipairs(keys) do
    if not holders[at] then
      free[#free + 1] = key
    end
  end
  if free[1] and redis.call('EXISTS', unpack(free)) > 0 then
    for at, key in ipairs(keys) do
      holders[at] = holders[at] or redis.pcall('GET', key)
    end
  end
  return holders
end

-- noLock returns the error of one that is no lock, or nothing. A caller that may take any and gets
-- none is told: others release what they hold, but what is no lock stays.
local function noLock(holders)
  for _, holder in ipairs(holders) do
    if type(holder) == 'table' then
      return holder
    end
  end
end

-- chosen is the answer to a caller that now has one of them with this fence, or none. Only is the
-- one that it wanted, or 0 for any.
local function chosen(got, fence, holders, only)
  local failed = type(fence) == 'table' and fence or not fence and noLock(only > 0 and { holders[only] } or holders)
  if failed then
    return failed
  end
  local free = {}
  for at, holder in ipairs(holders) do
    free[at] = holder and '0' or '1'
  end
  return { fence and got or 0, fence or 0, table.concat(free) }
end

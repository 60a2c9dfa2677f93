-- Remove or move each task if its score is still the one that the caller saw: otherwise somebody
-- has enqueued it again since, or taken it.
--
-- KEYS     as in change.lua
-- ARGV[1]  the caller's fence
-- ARGV[2]  and the rest, three for each task: its id, the score that was seen, and what to do:
--          'remove', or a new score, or + and the microseconds from now at which it is due
-- Returns a text with 1 for each task that had that score, and 0 for the others; nil if the caller
-- is stale.
runWhenFull()
return once(ARGV[1], function()
  local done = {}
  for i = 2, #ARGV, 3 do
    local id, seen, to = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    local score = redis.call('ZSCORE', KEYS[1], id)
    if score and tonumber(score) == tonumber(seen) then
      if to == 'remove' then
        redis.call('ZREM', KEYS[1], id)
      elseif string.sub(to, 1, 1) == '+' then
        redis.call('ZADD', KEYS[1], scoreOf(nowMicros() + tonumber(string.sub(to, 2))), id)
      else
        redis.call('ZADD', KEYS[1], to, id)
      end
      done[#done + 1] = '1'
    else
      done[#done + 1] = '0'
    end
  end
  return table.concat(done)
end)

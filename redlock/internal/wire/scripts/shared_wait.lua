-- requires handover fence shared_admit enqueue
-- Become a reader of a key, or wait for that: wait.lua for readers. They wait on the list of the
-- writers.
--
-- One release serves a limited number of waiters. So a reader whose turn has come serves those that
-- are now the oldest, if they are readers: they waited with it.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the caller's value
-- ARGV[2]  time to live in milliseconds
-- ARGV[3]  the grace of waiters that are served with the caller, in milliseconds
-- ARGV[4]  1 if the caller's turn has come (shared_acquire.lua), or empty
-- ARGV[5]  the caller's process, or empty: then it does not wait here
-- ARGV[6]  for how long the caller has waited already, in microseconds: it orders the list
-- ARGV[7]  how many may wait
-- ARGV[8]  the place of other libraries' clients on the list, "others" or "anyone" (others.lua), or
--          empty
-- ARGV[9]  with fencing: the caller's wall clock in microseconds
-- ARGV[10] with fencing: how long the counters live, in milliseconds
-- Returns what wait.lua returns for one key; never -4, because readers do not keep readers out. If
-- only a writer that waits does, the time is that of its intent.
local key, value, turn = KEYS[1], ARGV[1], ARGV[4] ~= ''
local list, place = 'redquorum:wait:' .. key, '+' .. ARGV[5] .. ':' .. value
local holder, left = redis.call('GET', key), nil
if not holder and (turn or not intentLeft(key)) then
  left = endTurn(key)
end
if holder == marker or not holder and not left then
  local fence = admitReader(key, value, ARGV[2], ARGV[4], ARGV[9], ARGV[10])
  if type(fence) == 'table' then
    return fence
  elseif fence ~= 0 then
    redis.pcall('ZREM', list, place)
    for _, oldest in ipairs(turn and redis.pcall('ZRANGE', list, 0, 15) or {}) do
      local prefers = isPreferred(oldest)
      local process, _, reads = readPlace(prefers and string.sub(oldest, 2) or oldest)
      if reads then
        handOver(key, ARGV[3], marker, true)
      end
      if process and not prefers then -- not the place of others
        break
      end
    end
    return { 1, fence }
  end
end

local foreign, now = holder and isForeign(holder) and holder, micros()
if foreign and now then
  seeOther(key, now)
end
local waits = 0
if ARGV[5] ~= '' and now then
  waits = enqueue(key, place, now, ARGV[6], ARGV[7], ARGV[8])
end
local answer = refusal(key, 1, place, waits, foreign, left)
if not holder and not left then
  answer[3] = intentLeft(key) or 0
end
return answer

-- Return how long until a task is due.
--
-- KEYS     as in change.lua
-- ARGV[1]  how many microseconds from now a task may be due
-- Returns microseconds, an hour at most; zero or less if a task is due, and nil if the queue is
-- empty. Behind it are the first of the ids with a later score, and its score; nothing if there is
-- none, or its score is infinite.
local head = headOf()
if not head then
  return nil
end
local now = nowMicros()
local far = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. scoreOf(now + tonumber(ARGV[1])), '(+inf', 'WITHSCORES', 'LIMIT', 0, 1)
local wait = math.ceil(math.max(math.min(head * 1000000 - now, 3600000000), -1))
return { wait, far[1] and string.sub(far[1], 1, 1024), far[2] }

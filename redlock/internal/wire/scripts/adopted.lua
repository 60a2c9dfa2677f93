-- A note says from which value a key is being adopted (adopt.lua), and there are several if the lock
-- of an adopter is being adopted in turn. noteOf follows them from the value that a key has, and
-- returns the note that holds another value, or nothing.
local function noteOf(key, value, holder)
  for _ = 1, 8 do
    local note = 'redquorum:adopt:' .. key .. ':' .. holder
    holder = redis.pcall('GET', note)
    if holder == value then
      return note
    elseif type(holder) ~= 'string' then
      return nil
    end
  end
end

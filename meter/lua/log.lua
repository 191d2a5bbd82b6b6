-- log: the time of each unit, and how many lie in (now - window, now].
--
-- KEYS     the meter: a list of times (us), oldest first, that lives until the newest has left the window
-- ARGV     window (us), limit, 0
-- cost     O(log n) reads, and O(units taken or gone) for a write
local function time_at(key, i)
  return call('LINDEX', key, i) + 0
end

-- gone_until counts the entries up to a time: 1, 2, 4 ... from the oldest on, since few are gone as a rule, then by halves.
local function gone_until(key, len, limit)
  local low, high = 0, 1 -- the entries before low are gone; the one before high may not be
  while high <= len and time_at(key, high - 1) <= limit do
    low, high = high, high * 2
  end
  high = min(high - 1, len)
  while low < high do
    local middle = floor((low + high) / 2)
    if time_at(key, middle) <= limit then low = middle + 1 else high = middle end
  end
  return low
end

local function append(key, n, at)
  local value, batch = format('%d', at), {}
  for i = 1, min(n, 1000) do batch[i] = value end
  while n > 0 do
    call('RPUSH', key, unpack(batch, 1, min(n, 1000)))
    n = n - 1000
  end
end

-- remove takes n entries away: the newest or, when taken is given, those of that time.
local function remove(key, n, taken)
  if taken > 0 then
    call('LREM', key, format('%d', n), format('%d', taken))
  else
    call('LTRIM', key, 0, format('%d', -n - 1))
  end
end

-- live_of counts the entries of a time that are still in the window.
local function live_of(key, len, gone, t)
  return max(0, gone_until(key, len, t) - max(gone, gone_until(key, len, t - 1)))
end

local function log(key, op, least, most, arg, window, limit)
  local len, at, gone = call('LLEN', key), now, 0
  if len > 0 then
    at = max(at, time_at(key, -1))
    gone = gone_until(key, len, at - window)
  end
  local used = len - gone
  if op == REFUND and arg > 0 then least = min(least, live_of(key, len, gone, arg)) end
  local verdict, retry, change = units(op, least, most, used, limit - used, limit, 20000)
  if verdict == 0 and retry == 0 then
    retry = time_at(key, gone + least - (limit - used) - 1) + window - at
  end
  used = used + change
  if change ~= 0 then
    if gone > 0 then call('LTRIM', key, gone, -1) end
    if change > 0 then append(key, change, at) else remove(key, -change, arg) end
  end
  local reset = used > 0 and time_at(key, -1) + window - at or 0
  if change ~= 0 and used > 0 then call('PEXPIRE', key, ttl(at - clock + reset)) end
  return verdict, max(0, limit - used), retry, reset, max(0, change), at
end

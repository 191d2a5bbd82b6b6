-- counter: what the last window held, estimated as the previous aligned window by the share of it that is still covered,
-- plus this one; all multiplied by the window, so that the share stays whole.
--
-- KEYS     the meter: "start prev used last", a string that lives until both counters have left the window
-- ARGV     window (us), limit, 0
-- cost     O(1): a read, and a write when something changes
local function counter(key, op, least, most, arg, window, limit)
  local prev, used, at = 0, 0, now
  local start
  local v = call('GET', key)
  if v then
    local s, p, u, last = match(v, '^(%d+) (%d+) (%d+) (%d+)$')
    at = max(at, last + 0)
    start = at - at % window
    if start == s + 0 then
      prev, used = p + 0, u + 0
    elseif start == s + window then
      prev = u + 0
    end
  else
    start = at - at % window
  end
  if op == REFUND and arg > 0 and arg < start then least = 0 end
  local left = start + window - at
  local full = limit * window
  local room = floor(max(0, full - prev * left - used * window) / window)
  local verdict, retry, change = units(op, least, most, used, room, limit, floor(floor(EXACT / 2) / window))
  if verdict == 0 and retry == 0 then
    if used + least <= limit then
      retry = left - floor((limit - used - least) * window / prev)
    else
      retry = left + window - floor((limit - least) * window / used)
    end
  end
  used = used + change
  local reset = used > 0 and left + window or prev > 0 and left or 0
  if change ~= 0 then
    if reset > 0 then
      call('SET', key, format('%d %d %d %d', start, prev, used, at), 'PX', ttl(at - clock + reset))
    else
      call('DEL', key)
    end
  end
  return verdict, floor(max(0, full - prev * left - used * window) / window), retry, reset, max(0, change), at
end

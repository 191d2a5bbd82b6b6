-- fixed: units counted in one window after the other.
--
-- KEYS     the meter: "start used last", a string that lives until the window ends
-- ARGV     window (us), limit, 1 when the first event opens a window, 0 when they are aligned to the epoch
-- cost     O(1): a read, and a write when something changes
local function fixed(key, op, least, most, arg, window, limit, first)
  local start, used, at = 0, 0, now
  local v = call('GET', key)
  if v then
    local s, u, last = match(v, '^(%d+) (%d+) (%d+)$')
    start, used, at = s + 0, u + 0, max(at, last + 0)
    if at - start >= window then used = 0 end
  end
  if used == 0 then start = first == 1 and at or at - at % window end
  if op == REFUND and arg > 0 and arg < start then least = 0 end
  local verdict, retry, change = units(op, least, most, used, limit - used, limit, EXACT)
  used = used + change
  local left = start + window - at
  if verdict == 0 and retry == 0 then retry = left end
  local reset = used > 0 and left or 0
  if change ~= 0 then
    if used > 0 then
      call('SET', key, format('%d %d %d', start, used, at), 'PX', ttl(at - clock + reset))
    else
      call('DEL', key)
    end
  end
  return verdict, max(0, limit - used), retry, reset, max(0, change), at
end

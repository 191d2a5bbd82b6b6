-- bucket: gcra, token bucket and leaky bucket. A debt in us * count that drains by drain a microsecond, that each unit
-- raises by unit, and that may not rise above full.
--
-- KEYS     the meter: "debt last", a string that lives until the debt has drained
-- ARGV     unit, drain, full
-- cost     O(1): a read, and a write when something changes
local function bucket(key, op, least, most, arg, unit, drain, full)
  local debt, at = 0, now
  local v = call('GET', key)
  if v then
    local d, last = match(v, '^(%d+) (%d+)$')
    last = last + 0
    if last > at then at = last end
    debt = max(0, d - (at - last) * drain)
  end
  local verdict, retry, taken = 1, 0, 0
  if op == REFUND then
    debt = max(0, debt - least * unit)
  elseif op == FORCE then
    if least > floor((EXACT - debt) / unit) then verdict = -1 else taken = least end
  elseif least * unit > full then
    verdict, retry = 0, -1
  elseif least > 0 then
    local need = least * unit
    local over = debt - (full - need)
    if over > 0 then retry = ceil(over / drain) end
    if retry > arg or debt + need > EXACT then
      verdict = 0
    elseif op == TAKE then
      taken = over > 0 and least or min(most, floor((full - debt) / unit))
    end
  end
  debt = debt + taken * unit
  local reset = ceil(debt / drain)
  if taken > 0 or op == REFUND and least > 0 then
    if debt > 0 then
      call('SET', key, format('%d %d', debt, at), 'PX', ttl(at - clock + reset))
    else
      call('DEL', key)
    end
  end
  return verdict, floor(max(0, full - debt) / unit), retry, reset, taken, at
end

-- check: the most frequent call, a take of n units or nothing from a bucket without a penalty. It answers as bucket does,
-- in half the time: no functions, no arguments that are always the same.
--
-- KEYS     the meter, as in bucket
-- ARGV     n, unit, drain, full
-- returns  verdict, remaining, retry, reset
-- cost     O(1): a read, and a write when it conforms
local n, unit, drain, full = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0
local ceil, floor = math.ceil, math.floor
local now = clock_us()
local debt, at = 0, now
local v = redis.call('GET', KEYS[1])
if v then
  local d, last = string.match(v, '^(%d+) (%d+)$')
  last = last + 0
  if last > at then at = last end
  debt = d - (at - last) * drain
  if debt < 0 then debt = 0 end
end
local need = n * unit
local over = need > full and 1 or debt - (full - need)
local verdict, retry = 1, 0
if n > 0 and over > 0 then
  verdict, retry = 0, need > full and -1 or ceil(over / drain)
elseif n > 0 then
  debt = debt + need
end
local reset = ceil(debt / drain)
if n > 0 and verdict == 1 then
  redis.call('SET', KEYS[1], string.format('%d %d', debt, at), 'PX', ttl(at - now + reset))
end
local room = full - debt
return { verdict, room > 0 and floor(room / unit) or 0, retry, reset }

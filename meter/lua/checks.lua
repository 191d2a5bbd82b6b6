-- checks: several times check, for callers that asked meanwhile and have nothing else to do with each other. What one would
-- say alone it says here, at one instant and in the order of the keys, of which some may be the same. A meter that cannot be
-- read or written is passed over and spoils nothing for the others.
--
-- KEYS     the meters, as in bucket
-- ARGV     per meter: n, unit, drain, full
-- returns  per meter: verdict, remaining, retry, reset, in one list; a verdict of -2 says: ask alone, and see the error
-- cost     O(1) each, a third of a call of its own
local call, match, format = redis.pcall, string.match, string.format
local ceil, floor = math.ceil, math.floor
local now = clock_us()

local function check(key, n, unit, drain, full)
  local debt, at = 0, now
  local v = call('GET', key)
  if v then
    local d, last
    if not v.err then d, last = match(v, '^(%d+) (%d+)$') end
    if not last then return -2, 0, 0, 0 end
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
  if n > 0 and verdict == 1 and call('SET', key, format('%d %d', debt, at), 'PX', ttl(at - now + reset)).err then
    return -2, 0, 0, 0
  end
  local room = full - debt
  return verdict, room > 0 and floor(room / unit) or 0, retry, reset
end

local reply = {}
for i = 1, #KEYS do
  local a = 4 * i
  reply[a - 3], reply[a - 2], reply[a - 1], reply[a] = check(KEYS[i], ARGV[a - 3] + 0, ARGV[a - 2] + 0, ARGV[a - 1] + 0, ARGV[a] + 0)
end
return reply

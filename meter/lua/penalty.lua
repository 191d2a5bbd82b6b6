-- penalty: counts the refusals of a key, and closes it for longer after too many of them. See penalty.go.
--
-- KEYS     the penance: "strikes since closed", a string that lives until it says nothing any more
-- ARGV     strikes, within, closure (us)
-- cost     O(1): a read, and a write at a refusal
local function strike(key, strikes, since, limit, within, closure)
  if strikes == 0 or now - since >= within then strikes, since = 0, now end
  strikes = strikes + 1
  local closes = strikes >= limit
  local ends, text = since + within, format('%d %d 0', strikes, since)
  if closes then
    ends, text = now + closure, format('0 %d %d', now, now + closure)
  end
  call('SET', key, text, 'PX', ttl(ends - clock))
  return closes
end

-- judge asks a law under a penalty.
local function judge(law, key, penance, limit, within, closure, op, least, ...)
  local strikes, since, closed = 0, 0, 0
  now = clock
  local v = call('GET', penance)
  if v then
    strikes, since, closed = match(v, '^(%d+) (%d+) (%d+)$')
    strikes, since, closed = strikes + 0, since + 0, closed + 0
    now = max(now, since)
  end
  local left = 0
  if op <= TAKE and closed > now then
    op, left = PEEK, closed - now
  end
  local verdict, remaining, retry, reset, taken, at = law(key, op, least, ...)
  if op == TAKE and verdict == 0 and strike(penance, strikes, since, limit, within, closure) then left = closure end
  now = clock
  if left == 0 then return verdict, remaining, retry, reset, taken, at end
  return 0, 0, retry < 0 and retry or max(retry, left), max(reset, left), 0, at
end

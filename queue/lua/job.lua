-- job: an operator's or a producer's hand on one job.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     cancel | revive | await, ref
-- returns  cancel: not_found | state (dead: it stays so) | cancelled | out (its worker was told)
--          revive: not_found | full, retry-after (us, -1 unknown: paused), level, capacity, T (us), bucket | draining,
--          bucket | ok, position, level, capacity, wait (us), now (us),
--          digest and id
--          await: wait (its end will be published) | state, ended (us), error or result | gone: it ended, or never was
-- cost     O(log n); a job that is out: O(workers)
local op, ref = ARGV[1], ARGV[2]
local job = JOB .. ref
call('DEL', P .. ':-') -- a write that a full Redis never refuses opens the script for the others
local v = call('HMGET', job, 'is', 'run', 'state', 'member', 'meta', 'error', 'ended', 'past', 'wait')
local name = v[1] and match(v[1], '\n(.*)$')
local alive = name and v[2]

-- waiting is the member under which a job waits in its bucket, or nil.
local function waiting(b)
  local member = v[4] or ref
  if call('ZSCORE', P .. ':line:' .. b.name, member) or call('ZSCORE', P .. ':later:' .. b.name, member) then
    return member
  end
  local parked = '!' .. match(v[5], '^%S+') .. ':' .. member
  return call('ZSCORE', P .. ':later:' .. b.name, parked) and parked or nil
end

local function cancel()
  if not alive then return { 'not_found' } end
  if v[3] then return { v[3] } end
  local b = bucket(name)
  local member = waiting(b)
  if member then
    call('ZREM', P .. ':expiry:' .. name, member)
    seldom().drop_waiting(b, class(b.class), member, 'cancelled')
    return { 'cancelled' }
  end
  call('HSET', job, 'cancel', '1')
  local workers = call('HKEYS', P .. ':workers')
  for _, worker in ipairs(workers) do
    if call('HEXISTS', P .. ':out:' .. worker, ref) == 1 then
      call('HSET', P .. ':cancel:' .. worker, ref, 0)
      call('PUBLISH', P .. ':wake', '0 ' .. b.class) -- its next call brings the news
    end
  end
  return { 'out' }
end

local function revive()
  if not alive or v[3] ~= 'dead' then return { 'not_found' } end
  local b = bucket(name)
  local c = class(b.class)
  if b.draining or c.draining then return { 'draining', name } end
  if b.line + b.later >= c.capacity then seldom().expire(b, c) end
  if b.line + b.later >= c.capacity then
    local at = not (b.paused or c.paused) and max(0, ceil(seldom().room_at(b, c, next_start(b, c)))) or -1
    return { 'full', at, b.line + b.later, c.capacity, ceil(b.T), name }
  end
  local ahead = b.line
  if b.later > 0 then ahead = ahead + call('ZCOUNT', P .. ':later:' .. name, '-inf', int(now)) end
  local wait = next_start(b, c) + ahead * b.T
  local number = int(next_stamp())
  call('ZREM', P .. ':dead:' .. b.class, ref)
  call('HDEL', job, 'state', 'error', 'ended', 'member', 'expires', 'held')
  local r = returns()
  local p = r.past_of(v[8])
  p.fails, p.crashes = 0, 0
  call('HSET', job, 'past', r.past_text(p), 'meta', number .. match(v[5], ' .*$'))
  join(b, c, 0, number, ref)
  set_aside(b)
  if v[9] then
    local expires = int(now + v[9])
    call('HSET', job, 'expires', expires)
    call('ZADD', P .. ':expiry:' .. name, expires, ref)
  end
  count(b.class, 'revived', 1)
  return { 'ok', ahead + 1, b.line + b.later, c.capacity, ceil(wait), now, match(v[1], '^(.-)\n') }
end

local function await()
  if alive and v[3] then return { v[3], v[7] or 0, v[6] or '' } end
  if alive then
    call('SADD', P .. ':awaits', ref)
    return { 'wait' }
  end
  local kept = call('HMGET', P .. ':ended:' .. ref, 'state', 'ended', 'error', 'result')
  if not kept[1] then return { 'gone' } end
  return { kept[1], kept[2] or 0, kept[4] or kept[3] or '' }
end

local answer = op == 'cancel' and cancel() or op == 'revive' and revive() or await()
finish()
return answer

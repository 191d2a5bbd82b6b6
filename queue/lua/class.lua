-- class: settings of one class in one shard. Every shard has its own copy; the caller writes them all.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     put, class, version (refused unless newer than the stored one), then field and value pairs
--          pause | resume | drain | unhold, class
--          hold, class, until (us), reason, longer (1: only if that is later than it is held already)
--          rm, class (refused while it has jobs; buckets that must still remember a slot keep the settings until then)
--          purge_dead, class, then refs; without them the oldest 100
--          trim, class, the most dead jobs to keep in this shard (-1: as many as the class keeps)
--          track, class, worker: its buckets count from now on what that worker has out; without a worker: all do
-- returns  ok, 1 when its buckets must begin to be tracked | stale, stored version (put) | busy, waiting, out, dead (rm) |
--          ok, purged, left (purge_dead) | ok, removed, left (trim) | unknown_class
-- cost     O(1); after put the caller touches the buckets, whose dues a new rate moves
local op, cname = ARGV[1], ARGV[2]
local key = P .. ':class:' .. cname
call('DEL', P .. ':-')

local USUAL = { overflow = 'reject', retention = '0', order = 'park', max_in_flight = '0', max_crashes = '3', ack = 'memory', pace = 'normal',
  adapt = '', hold = '' }

-- mark_special tells the other scripts whether there is more to read of a class than what all have (see particular).
local function mark_special(special)
  if (call('HGET', key, 'hold') or 0) + 0 < now then call('HDEL', key, 'hold', 'hold_reason') end -- over
  for field, usual in pairs(USUAL) do
    special = special or (call('HGET', key, field) or usual) ~= usual
  end
  call('HSET', key, 'special', special and '1' or '0')
end

if op == 'put' then
  local stored = tonumber(call('HGET', key, 'version') or 0)
  if tonumber(ARGV[3]) <= stored then return { 'stale', stored } end
  call('HSET', key, 'version', ARGV[3], unpack(ARGV, 4))
  call('HDEL', key, 'removed')
  if stored == 0 then call('HSET', key, 'made', match(call('GET', P .. ':server') or '', '%d+$') or '0') end -- the epoch
  call('SADD', P .. ':classes', cname)
  local v = call('HMGET', key, 'order', 'max_in_flight', 'tracked')
  local track = (v[1] == 'hold' or v[2] ~= '0') and v[3] ~= 'all'
  if track then call('HSET', key, 'tracked', 'from now on') end -- should the rest fail, the next put goes on
  mark_special(v[3] or track)
  return { 'ok', track and 1 or 0 }
end

if call('EXISTS', key) == 0 then return { 'unknown_class' } end
if op == 'rm' then
  local waiting, out = seldom().standing(cname)
  local dead = call('ZCARD', P .. ':dead:' .. cname)
  if waiting + out + dead > 0 then return { 'busy', waiting, out, dead } end
  call('HSET', key, 'removed', '1')
  call('HDEL', key, 'paused', 'draining', 'hold', 'hold_reason') -- depart must see its empty buckets off, and a class made anew is open
  reindex_class(cname)
  return { 'ok' }
end
local dead = P .. ':dead:' .. cname
if op == 'purge_dead' then
  local refs, purged = { unpack(ARGV, 3) }, 0
  if #refs == 0 then refs = call('ZRANGE', dead, 0, BATCH - 1) end
  for _, ref in ipairs(refs) do
    if call('ZREM', dead, ref) == 1 then
      seldom().end_job(class(cname), ref)
      purged = purged + 1
    end
  end
  count(cname, 'dead_purged', purged)
  finish()
  return { 'ok', purged, call('ZCARD', dead) }
end
if op == 'trim' then
  local removed = returns().trim(class(cname), ARGV[3] + 0 >= 0 and ARGV[3] + 0 or nil)
  finish()
  return { 'ok', removed, call('ZCARD', dead) }
end
if op == 'track' and not ARGV[3] then
  call('HSET', key, 'tracked', 'all')
  return { 'ok' }
end
if op == 'track' then
  local all = call('HGETALL', P .. ':out:' .. ARGV[3])
  for i = 1, #all, 2 do
    local _, _, name = match(all[i + 1], OUT_ENTRY)
    if class_of(name) == cname and call('SADD', P .. ':flight:' .. name, all[i]) == 1 then bucket(name).changed = true end
  end
  for _, b in pairs(buckets) do b.flight = call('SCARD', P .. ':flight:' .. b.name) end
  finish()
  return { 'ok' }
end
if op == 'pause' then
  call('HSET', key, 'paused', '1')
elseif op == 'drain' then
  call('HSET', key, 'draining', '1')
elseif op == 'unhold' then
  call('HDEL', key, 'hold', 'hold_reason')
elseif op == 'hold' then
  local stored = (call('HGET', key, 'hold') or 0) + 0
  if ARGV[5] ~= '1' or ARGV[3] + 0 > stored then
    call('HSET', key, 'hold', ARGV[3], 'hold_reason', ARGV[4], 'special', '1')
  end
else
  call('HDEL', key, 'paused', 'draining')
end
reindex_class(cname)
return { 'ok' }

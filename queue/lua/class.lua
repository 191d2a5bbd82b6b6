-- class: settings of one class in one shard. Every shard has its own copy; the caller writes them all.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     put, class, version (refused unless newer than the stored one), then field and value pairs
--          pause | resume, class
--          rm, class (refused while it has jobs; buckets that must still remember a slot keep the settings until then)
--          purge_dead, class (at most 100)
-- returns  ok | stale, stored version (put) | busy, waiting, out, dead (rm) | ok, purged, left (purge_dead) |
--          unknown_class
-- cost     O(1); after put the caller touches the buckets, whose dues a new rate moves
local op, cname = ARGV[1], ARGV[2]
local key = P .. ':class:' .. cname
call('DEL', P .. ':-')

if op == 'put' then
  local stored = tonumber(call('HGET', key, 'version') or 0)
  if tonumber(ARGV[3]) <= stored then return { 'stale', stored } end
  call('HSET', key, 'version', ARGV[3], unpack(ARGV, 4))
  call('HDEL', key, 'removed')
  call('SADD', P .. ':classes', cname)
  return { 'ok' }
end

if call('EXISTS', key) == 0 then return { 'unknown_class' } end
if op == 'rm' then
  local waiting, out = standing(cname)
  local dead = call('ZCARD', P .. ':dead:' .. cname)
  if waiting + out + dead > 0 then return { 'busy', waiting, out, dead } end
  call('HSET', key, 'removed', '1')
  call('HDEL', key, 'paused') -- depart must see its empty buckets off, and a class made anew is open
  reindex_class(cname)
  return { 'ok' }
end
if op == 'purge_dead' then
  local refs = call('ZRANGE', P .. ':dead:' .. cname, 0, BATCH - 1)
  for _, ref in ipairs(refs) do
    call('ZREM', P .. ':dead:' .. cname, ref)
    mark(class(cname), ref)
    count(cname, 'dead_purged', 1)
  end
  finish()
  return { 'ok', #refs, call('ZCARD', P .. ':dead:' .. cname) }
end
if op == 'pause' then
  call('HSET', key, 'paused', '1')
else
  call('HDEL', key, 'paused')
end
reindex_class(cname)
return { 'ok' }

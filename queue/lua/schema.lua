-- schema: agree on the version of the data and on the number of shards, at every start.
--
-- KEYS[1]  the installation's meta key
-- ARGV     the schema this program writes, the oldest schema it understands, shards (0: what is stored), default shards, the
--          oldest program that can work with what this one writes
-- returns  ok, shards | too_old, oldest schema that may work here | too_new, stored schema | shards, stored shards
-- cost     O(1)
--
-- oldest is raised only by a release whose data older programs would misread, so that during a deploy old and new run
-- side by side.
local mine, understood, shards = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local v = redis.call('HMGET', KEYS[1], 'schema', 'oldest', 'shards')
if not v[1] then
  if shards == 0 then shards = tonumber(ARGV[4]) end
  redis.call('HSET', KEYS[1], 'schema', mine, 'oldest', ARGV[5], 'shards', shards)
  return { 'ok', shards }
end
local schema, oldest, stored = tonumber(v[1]), tonumber(v[2]), tonumber(v[3])
if mine < oldest then return { 'too_old', oldest } end
if schema < understood then return { 'too_new', schema } end
if shards ~= 0 and shards ~= stored then return { 'shards', stored } end
if schema < mine then redis.call('HSET', KEYS[1], 'schema', mine, 'oldest', math.max(oldest, tonumber(ARGV[5]))) end
return { 'ok', stored }

-- states: how some buckets of a shard stand. Changes nothing.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     names of buckets, at most 100
-- returns  now (us); the classes of these buckets: name and settings (field, value, …; none: there is no such class), …; then one
--          list per bucket: jobs in line and later, out (-1: not counted), why it was set aside as sick, and the fields of its own
--          hash (OWN)
-- cost     O(buckets): 2 calls per bucket, up to 2 more for those that have delayed jobs or count what is out; 1 per class, and 1
local OWN = { 'aside', 'slot', 'paused', 'draining', 'hold', 'backoff', 'hold_reason', 'adapted', 'overflowed' }
local NONE = {}

local function length(kind, name)
  local n = redis.pcall(kind == 'flight' and 'SCARD' or 'ZCARD', P .. ':' .. kind .. ':' .. name) -- what is broken has none
  return type(n) == 'number' and n or 0
end

local settings, listed = {}, {}

-- tracked tells whether the buckets of a class count what they have out.
local function tracked(cname)
  local known = settings[cname]
  if known == nil then
    local fields = call('HGETALL', P .. ':class:' .. cname)
    listed[#listed + 1] = cname
    listed[#listed + 1] = fields
    known = false
    for i = 1, #fields, 2 do known = known or fields[i] == 'tracked' end
    settings[cname] = known
  end
  return known
end

local sick = #ARGV > 0 and call('HMGET', P .. ':sick', unpack(ARGV)) or NONE
local reply = { int(now), listed }
for i, name in ipairs(ARGV) do
  local counted = tracked(class_of(name))
  local own = redis.pcall('HMGET', P .. ':bucket:' .. name, unpack(OWN))
  if own.err then own = NONE end
  reply[i + 2] = {
    length('line', name), (own[1] or own == NONE) and length('later', name) or 0, counted and length('flight', name) or -1, sick[i] or '', own,
  }
end
return reply

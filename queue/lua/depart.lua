-- depart: the only script that lets a job leave its bucket for a worker. Also the worker's heartbeat.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     worker, call (1, 2, 3, …), seen (the last call whose reply the worker has), want (at most 100), bytes (of
--          payload in one reply), then the classes served; none means all
-- returns  refused, the stored call: this call number is not new (a resent call, or a worker that is not known any more)
--          ok, now (us), wait (us until the next departure may be possible, -1 nothing known), given back (jobs of lost
--          replies), classes {name, version, timeout us, http}…,
--          departures {ref, stamp, due us, class, key, id, type, payload, backs, number}…, buckets looked
--          at
-- cost     O(log n) per departure, about 9 calls, whatever the number of keys; at most 100 buckets are looked at
local worker, call, seen, want, bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local OUT = P .. ':out:' .. worker
-- Buckets that are all late, as after an outage, would share one phase from here on; each gets this much (us) less of
-- the catch-up than the one before.
local SPREAD = 100

redis.call('DEL', P .. ':-') -- a write that a full Redis never refuses opens the script for the others
local last = tonumber(redis.call('HGET', P .. ':workers', worker) or 0)
if call <= last or (last == 0 and call > 1) then return { 'refused', last } end
redis.call('HSET', P .. ':workers', worker, call)

-- Jobs of a call whose reply the worker never saw go back: it cannot have started them.
local function give_back_unseen()
  local returned = 0
  local all = redis.call('HGETALL', OUT)
  for i = 1, #all, 2 do
    local _, of, name = string.match(all[i + 1], '^(%d+) (%d+) (.*)$')
    if tonumber(of) > seen then
      redis.call('HDEL', OUT, all[i])
      give_back(name, all[i])
      returned = returned + 1
    end
  end
  return returned
end

local stamp = tonumber(redis.call('GET', P .. ':stamp') or 0)
local served, departures, visits, behind = {}, {}, 0, 0

-- take_slot moves the slot of a departure. What came later than the catch-up allows is lost, not made up.
local function take_slot(b, c, at)
  local kept = -c.catch_up
  if at >= kept then
    set_slot(b, at)
    return
  end
  set_slot(b, kept + math.min(behind * SPREAD, c.T / 10))
  behind = behind + 1
end

local function hand_out(b, c, at)
  local member = redis.call('ZPOPMIN', P .. ':line:' .. b.name)[1]
  local ref = ref_of(member)
  b.line = b.line - 1
  local v = redis.pcall('HMGET', P .. ':job:' .. ref, 'key', 'id', 'type', 'payload', 'expires', 'backs', 'number')
  if v.err or not v[4] then -- the job itself is gone: nothing can be run, and the line must go on
    count(b.class, 'sick', 1)
    return
  end
  if v[5] then
    redis.call('ZREM', P .. ':expiry:' .. b.name, member)
    if expired(c, tonumber(v[5])) then
      mark(c, ref)
      count(b.class, 'expired', 1)
      return
    end
  end
  stamp = math.max(stamp + 1, now)
  take_slot(b, c, at)
  redis.call('HSET', OUT, ref, int(stamp) .. ' ' .. call .. ' ' .. b.name)
  count(b.class, 'departed', 1)
  bytes = bytes - #v[4]
  departures[#departures + 1] = { ref, int(stamp), int(now + math.ceil(at)), b.class, v[1], v[2], v[3], v[4], v[6] or '0', v[7] }
  if not served[b.class] then served[b.class] = { b.class, c.version, c.timeout, c.http } end
end

local function join_line(b, c)
  local key = P .. ':later:' .. b.name
  local v = redis.call('ZRANGEBYSCORE', key, '-inf', int(now), 'WITHSCORES', 'LIMIT', 0, BATCH)
  for i = 1, #v, 2 do
    redis.call('ZREM', key, v[i])
    join(b, c, score(v[i + 1]) - now)
    redis.call('ZADD', P .. ':line:' .. b.name, int(score(v[i + 1])), v[i])
    b.line = b.line + 1
    b.later = b.later - 1
  end
end

local function visit(name)
  local b = bucket(name)
  local c = class(b.class)
  if b.line + b.later > 0 then expire(b, c) end
  if b.later > 0 then join_line(b, c) end
  for _ = 1, BATCH do
    if b.line == 0 or #departures >= want or bytes <= 0 or b.paused then break end
    local at = due(b, c)
    if math.max(at, b.hold or 0) > 0 then break end
    hand_out(b, c, at)
  end
  reindex(b)
end

-- One bad bucket never stops a shard: it is set aside, counted and shown, and the others go on.
local function visit_safely(cname, name)
  local ok, err = pcall(visit, name)
  if ok then return end
  buckets[name] = nil
  redis.call('ZREM', P .. ':due:' .. cname, name)
  redis.call('HSET', P .. ':sick', name, tostring(type(err) == 'table' and err.err or err))
  count(cname, 'sick_buckets', 1)
end

local function serve(cname)
  local c = class(cname)
  touched[cname] = true
  if not c or c.paused then return end
  while #departures < want and visits < BATCH and bytes > 0 do
    local n = math.min(want - #departures, BATCH - visits)
    local names = redis.call('ZRANGEBYSCORE', P .. ':due:' .. cname, '-inf', int(now), 'LIMIT', 0, n)
    for _, name in ipairs(names) do
      if #departures >= want or bytes <= 0 then return end
      visits = visits + 1
      visit_safely(cname, name)
    end
    if #names < n then return end
  end
end

-- wanted lists the served classes with their earliest dues, earliest first.
local function wanted()
  local list = {}
  if #ARGV == 5 then
    local v = redis.call('ZRANGE', P .. ':due', 0, BATCH - 1, 'WITHSCORES')
    for i = 1, #v, 2 do list[#list + 1] = { v[i], score(v[i + 1]) } end
    return list
  end
  for i = 6, #ARGV do
    local at = redis.call('ZSCORE', P .. ':due', ARGV[i])
    if at then list[#list + 1] = { ARGV[i], score(at) } end
  end
  table.sort(list, function(x, y) return x[2] < y[2] end)
  return list
end

local returned = call - 1 > seen and give_back_unseen() or 0
if want > 0 then
  for _, entry in ipairs(wanted()) do
    if entry[2] > now or #departures >= want or visits >= BATCH then break end
    serve(entry[1])
  end
end
if #departures > 0 then redis.call('SET', P .. ':stamp', int(stamp)) end
finish(true)

local soonest = wanted()[1]
local wait = -1
if soonest and soonest[2] < math.huge then wait = math.max(0, soonest[2] - now) end
local settings = {}
for _, s in pairs(served) do settings[#settings + 1] = s end
return { 'ok', int(now), wait, returned, settings, departures, visits }

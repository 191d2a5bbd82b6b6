-- depart: the only script that lets a job leave its bucket for a worker. Also the worker's heartbeat.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     worker, call (1, 2, 3, …), seen (the last call whose reply the worker has), want (at most 100), bytes (of
--          payload in one reply), then the classes served; none means all
-- returns  refused, the stored call: this call number is not new (a resent call, or a worker that is not known any more)
--          ok, now (us), wait (us until the next departure may be possible, -1 nothing known), given back (jobs of lost
--          replies), buckets looked at, classes {name, version, timeout us, http}…, names of buckets, and seven values per
--          departure: ref, stamp, due (us), which of the buckets, run (id, type and payload), backs, number
-- cost     O(log n) per departure, about 2 calls and 6 per bucket, whatever the number of keys; at most 100 buckets are
--          looked at
local worker, number, seen, want, bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local OUT = P .. ':out:' .. worker
-- Buckets that are all late, as after an outage, would share one phase from here on; each gets this much (us) less of
-- the catch-up than the one before.
local SPREAD = 100

call('DEL', P .. ':-') -- a write that a full Redis never refuses opens the script for the others
local last = tonumber(call('HGET', P .. ':workers', worker) or 0)
if number <= last or (last == 0 and number > 1) then return { 'refused', last } end
call('HSET', P .. ':workers', worker, number)

-- Jobs of a call whose reply the worker never saw go back: it cannot have started them.
local function give_back_unseen()
  local returned = 0
  local all = call('HGETALL', OUT)
  for i = 1, #all, 2 do
    local _, of, name = match(all[i + 1], OUT_ENTRY)
    if tonumber(of) > seen then
      call('HDEL', OUT, all[i])
      give_back(name, all[i])
      returned = returned + 1
    end
  end
  return returned
end

local served, names, departures, outs = {}, {}, {}, {}
local taken, visits, behind = 0, 0, 0 -- departures, buckets looked at, buckets that lost their slot

-- late tells of a due whether it was missed by more than the catch-up; by a nanosecond more, since slots are rounded.
local function late(c, at)
  return at < -c.catch_up - 0.001
end

-- next_slot is the slot of a departure that is due at an offset. What came later than the catch-up allows is lost, not
-- made up. It is never ahead of now: a producer is told what follows from it.
local function next_slot(c, at)
  if not late(c, at) then return at end
  return min(-c.catch_up + min(behind * SPREAD, c.T / 10), 0)
end

local function take_slot(b, c)
  local at = due(b, c)
  set_slot(b, next_slot(c, at))
  if late(c, at) then behind = behind + 1 end
  return at
end

-- allowed is how many departures are possible at once: one and, where the interval is short, those within the catch-up.
local function allowed(b, c)
  local at = due(b, c)
  if max(at, b.hold or 0) > 0 or b.paused then return 0 end
  return floor(-next_slot(c, at) / c.T) + 1
end

-- run_data reads what a departure hands over, nil when nothing can be run: the job is gone or has waited too long.
local function run_data(b, c, member, ref)
  local v = b.aside and redis.pcall('HMGET', JOB .. ref, 'run', 'expires', 'backs')
    or redis.pcall('HMGET', JOB .. ref, 'run')
  if v.err or not v[1] then
    count(b.class, 'sick', 1) -- and the line goes on
    if b.aside then call('ZREM', P .. ':expiry:' .. b.name, member) end
    return nil
  end
  if v[2] then
    call('ZREM', P .. ':expiry:' .. b.name, member)
    if expired(c, v[2] + 0) then
      mark(c, ref)
      count(b.class, 'expired', 1)
      return nil
    end
  end
  return v
end

local function hand_out(b, c, member, place)
  local ref = b.aside and ref_of(member) or member
  local v = run_data(b, c, member, ref)
  if not v then return end
  local at = take_slot(b, c)
  local stamp = next_stamp()
  outs[2 * taken + 1], outs[2 * taken + 2] = ref, out_entry(stamp, number, b.name)
  bytes = bytes - #v[1]
  local n = 7 * taken
  taken = taken + 1
  departures[n + 1], departures[n + 2], departures[n + 3], departures[n + 4] = ref, stamp, now + ceil(at), #names
  departures[n + 5], departures[n + 6], departures[n + 7] = v[1], v[3] or 0, score(place)
end

-- drain lets go what may go now.
local function drain(b, c)
  local n = min(allowed(b, c), b.line, want - taken, floor(bytes / max(c.largest, 1)))
  if n < 1 then
    if taken > 0 then
      bytes = 0 -- the next one might not fit
      return
    end
    n = 1
  end
  local heads = call('ZPOPMIN', P .. ':line:' .. b.name, n)
  b.line = b.line - #heads / 2
  names[#names + 1] = b.name
  served[b.class] = c
  local before = taken
  for i = 1, #heads, 2 do hand_out(b, c, heads[i], heads[i + 1]) end
  if taken > before then count(b.class, 'departed', taken - before) end
end

local function join_line(b, c)
  local key = P .. ':later:' .. b.name
  local v = call('ZRANGEBYSCORE', key, '-inf', int(now), 'WITHSCORES', 'LIMIT', 0, BATCH)
  for i = 1, #v, 2 do
    call('ZREM', key, v[i])
    join(b, c, score(v[i + 1]) - now, int(score(v[i + 1])), v[i])
    b.later = b.later - 1
  end
end

local function visit(name)
  local b = bucket(name)
  local c = class(b.class)
  if b.line + b.later > 0 then expire(b, c) end
  if b.later > 0 then
    join_line(b, c)
    write_lines()
  end
  for _ = 1, BATCH do
    if b.line == 0 or taken >= want or bytes <= 0 or allowed(b, c) == 0 then break end
    drain(b, c)
  end
  reindex(b)
end

local function serve(cname)
  local c = class(cname)
  touched[cname] = true
  if not c or c.paused then return end
  while taken < want and visits < BATCH and bytes > 0 do
    local n = min(want - taken, BATCH - visits)
    local names = call('ZRANGEBYSCORE', P .. ':due:' .. cname, '-inf', int(now), 'LIMIT', 0, n)
    for _, name in ipairs(names) do
      if taken >= want or bytes <= 0 then return end
      visits = visits + 1
      local ok, err = pcall(visit, name)
      if not ok then set_aside_sick(name, err) end
    end
    if #names < n then return end
  end
end

-- wanted lists the served classes with their earliest dues, earliest first.
local function wanted()
  local list = {}
  if #ARGV == 5 then
    local v = call('ZRANGE', P .. ':due', 0, BATCH - 1, 'WITHSCORES')
    for i = 1, #v, 2 do list[#list + 1] = { v[i], score(v[i + 1]) } end
    return list
  end
  for i = 6, #ARGV do
    local at = call('ZSCORE', P .. ':due', ARGV[i])
    if at then list[#list + 1] = { ARGV[i], score(at) } end
  end
  table.sort(list, function(x, y) return x[2] < y[2] end)
  return list
end

local returned = number - 1 > seen and give_back_unseen() or 0
write_lines()
if want > 0 then
  for _, entry in ipairs(wanted()) do
    if entry[2] > now or taken >= want or visits >= BATCH then break end
    serve(entry[1])
  end
end
if taken > 0 then call('HSET', OUT, unpack(outs)) end
finish(true)

local soonest = wanted()[1]
local wait = -1
if soonest and soonest[2] < math.huge then wait = max(0, soonest[2] - now) end
local settings = {}
for name, c in pairs(served) do settings[#settings + 1] = { name, c.version, c.timeout, c.http } end
return { 'ok', now, wait, returned, visits, settings, names, departures }

-- depart: the only script that lets a job leave its bucket for a worker. Also the worker's heartbeat.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     worker, call (1, 2, 3, …), seen (the last call whose reply the worker has), want (at most 100), bytes (of
--          payload in one reply), suspects (how many it may take of those that take their workers down: 0 or 1), then the
--          classes served; none means all
-- returns  refused, the stored call (0: this worker is not known any more and has to begin anew): the call number is not new
--          ok, now (us), wait (us until the next departure may be possible, -1 nothing known), given back (jobs of lost
--          replies), buckets looked at, classes {name, version, timeout us, http, retention us, strict}…, names of buckets,
--          seven values per departure: ref, stamp, due (us), which of the buckets, run (id, type and payload), past (empty,
--          or "backs attempts fails crashes suspect", and behind it how long (us) holds kept it waiting), number; then epoch
--          (us), the last change that was left at that time (us), jobs out that were cancelled, suspects that were left in
--          line
-- cost     O(log n) per departure, about 2 calls and 6 per bucket, whatever the number of keys; at most 100 buckets are
--          looked at
local worker, number, seen, want, bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local suspects = tonumber(ARGV[6])
local CLASSES = 7
local OUT = P .. ':out:' .. worker
local SUSPECT_WAIT = 250000 -- us until a bucket is looked at again whose head is a suspect that could not go
-- Buckets that are all late, as after an outage, would share one phase from here on; each gets this much (us) less of
-- the catch-up than the one before.
local SPREAD = 100

call('DEL', P .. ':-') -- a write that a full Redis never refuses opens the script for the others

-- The epoch is when this shard learnt that its data may be older than what happened: another server process answers, as
-- after a crash or a failover, or a worker knows of calls that the data does not. What left a bucket before is then
-- unknown, so none lets go before one interval after that moment.
local stored = call('MGET', P .. ':server', P .. ':stamp')
local server, mark, text = match(stored[1] or '', '^(%S+) (%S*) (%S+)$')
since = (text or 0) + 0
stamp_before = stored[2]
local last_change = stamp_before or 0

local function note_server(id, new_mark, epoch_began)
  server, mark, since = id, new_mark, epoch_began
  call('SET', P .. ':server', id .. ' ' .. new_mark .. ' ' .. int(epoch_began))
end

local function begin_epoch(id, new_mark)
  note_server(id, new_mark, now)
  epoch = 0
end

if since > now then begin_epoch(server, mark) end -- the clock was set back: an epoch that has not come would never end
if since > 0 then epoch = since - now end

local identified = false

-- identify looks, once in a call that may let something go, at which process answers. Its run id tells, and costs ten times
-- as much to ask for as the place of a function in its memory and its last save: while these are the same, so is it.
local function identify()
  if identified then return end
  identified = true
  local saved = redis.pcall('LASTSAVE')
  local seen_mark = sub(tostring(redis.call), 11) .. '@' .. (type(saved) == 'number' and int(saved) or '')
  if seen_mark == mark then return end
  local info = redis.pcall('INFO', 'server')
  local id = type(info) == 'string' and match(info, 'run_id:(%w+)') or '-'
  if server and id ~= server then return begin_epoch(id, seen_mark) end
  note_server(id, seen_mark, since)
end

-- A worker that was reclaimed, or has left, has its last call behind the time of that, which is negative. Numbers go on
-- from there, so that no late call of before, and nobody who saw the beat of before, is taken for one of now.
local beat = call('HGET', P .. ':workers', worker) or '0'
local last = tonumber(match(beat, '%d+$'))
if number <= last then return { 'refused', last } end
if seen > last then begin_epoch(server or '-', mark or '') end
if seen > 0 and (last == 0 or sub(beat, 1, 1) == '-') then return { 'refused', 0 } end
call('HSET', P .. ':workers', worker, number)

-- Jobs of a call whose reply the worker never saw go back: it cannot have started them.
local function give_back_unseen()
  local returned = 0
  local all = call('HGETALL', OUT)
  for i = 1, #all, 2 do
    local _, of, name = match(all[i + 1], OUT_ENTRY)
    if tonumber(of) > seen then
      call('HDEL', OUT, all[i])
      returns().release(name, all[i])
      returns().give_back(name, all[i])
      returned = returned + 1
    end
  end
  return returned
end

local served, names, departures, outs = {}, {}, {}, {}
local taken, visits, behind = 0, 0, 0 -- departures, buckets looked at, buckets that lost their slot
local left_suspects = 0

-- late tells of a due whether it was missed by more than the catch-up; by a nanosecond more, since slots are rounded.
local function late(c, at)
  return at < -c.catch_up - 0.001
end

-- next_slot is the slot of a departure that is due at an offset. What came later than the catch-up allows is lost, not
-- made up. It is never ahead of now: a producer is told what follows from it.
local function next_slot(b, c, at)
  if not late(c, at) then return at end
  return min(-c.catch_up + min(behind * SPREAD, b.T / 10), 0)
end

local function take_slot(b, c)
  local at = due(b, c)
  set_slot(b, next_slot(b, c, at))
  if late(c, at) then behind = behind + 1 end
  return at
end

-- allowed is how many departures are possible at once: one and, where the interval is short, those within the catch-up.
local function allowed(b, c)
  if opens(b, c) > 0 then return 0 end
  local n = floor(-next_slot(b, c, due(b, c)) / b.T) + 1
  if c.bound > 0 then return min(n, c.bound - b.flight) end
  return n
end

-- run_data reads what a departure hands over: false when nothing can be run, since the job is gone or has waited too long,
-- and nil when the job is a suspect that this worker cannot take.
local function run_data(b, c, member, ref)
  local v = b.aside and redis.pcall('HMGET', JOB .. ref, 'run', 'expires', 'past', 'held')
    or redis.pcall('HMGET', JOB .. ref, 'run')
  if v[3] then
    local r = returns()
    local suspicious = r.suspect(c, r.past_of(v[3]))
    if suspicious and suspects == 0 then return nil end
    v[3] = v[3] .. (suspicious and ' 1' or ' 0')
    if suspicious then suspects = suspects - 1 end
  end
  if v.err or not v[1] then
    count(b.class, 'sick', 1) -- and the line goes on
    if b.aside then call('ZREM', P .. ':expiry:' .. b.name, member) end
    return false
  end
  if v[2] then
    call('ZREM', P .. ':expiry:' .. b.name, member)
    if seldom().expired(c, v[2] + 0) then
      seldom().end_waiting(b, c, ref, 'expired')
      seldom().unblock(b, ref)
      return false
    end
  end
  return v
end

-- lets_go is when the head was let go, its due and the end of holds. Time lost to those is added up in the bucket; a job
-- that waited for any of it is told how much.
local function lets_go(b, c, at)
  local from = at
  if b.hold then at = max(at, b.hold) end
  if c.hold then at = max(at, c.hold) end
  if b.backoff then
    at = max(at, b.backoff)
    b.backoff = nil
    seldom().clear(b, 'backoff')
  end
  if at > from then
    b.held = b.held + ceil(at - from)
    set_aside(b)
    set(b, 'held', int(b.held))
  end
  return at
end

local function hand_out(b, c, member, place)
  local ref = b.aside and ref_of(member) or member
  local v = run_data(b, c, member, ref)
  if not v then return v end
  local at = lets_go(b, c, take_slot(b, c))
  local stamp = next_stamp()
  if v[3] and sub(v[3], -1) == '1' then call('HSET', JOB .. ref, 'apart', int(stamp)) end
  outs[2 * taken + 1], outs[2 * taken + 2] = ref, format(OUT_FORMAT, stamp, number, b.name)
  bytes = bytes - #v[1]
  local n = 7 * taken
  taken = taken + 1
  departures[n + 1], departures[n + 2], departures[n + 3], departures[n + 4] = ref, stamp, now + ceil(at), #names
  local past = v[3] or ''
  if b.held > 0 then past = (v[3] or '0 0 0 0 0') .. ' ' .. int(max(0, b.held - (v[4] or 0))) end
  departures[n + 5], departures[n + 6], departures[n + 7] = v[1], past, score(place)
  if c.tracked then
    call('SADD', P .. ':flight:' .. b.name, ref)
    b.flight = b.flight + 1
  end
  return true
end

-- leave puts heads back into their line, from the i-th on.
local function leave(b, heads, i)
  left_suspects = left_suspects + 1
  b.suspended = true
  for k = i, #heads, 2 do
    call('ZADD', P .. ':line:' .. b.name, heads[k + 1], heads[k])
    b.line = b.line + 1
  end
end

-- drain lets go what may go now, at most n.
local function drain(b, c, n)
  n = min(n, b.line, want - taken, floor(bytes / max(c.largest, 1)))
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
  for i = 1, #heads, 2 do
    if hand_out(b, c, heads[i], heads[i + 1]) == nil then
      leave(b, heads, i)
      break
    end
  end
  if taken > before then count(b.class, 'departed', taken - before) end
end

local function join_line(b, c)
  local key = P .. ':later:' .. b.name
  local v = call('ZRANGEBYSCORE', key, '-inf', int(now), 'WITHSCORES', 'LIMIT', 0, BATCH)
  for i = 1, #v, 2 do
    local member, at = v[i], score(v[i + 1])
    call('ZREM', key, member)
    local number, parked = match(member, '^!(%d+):(.*)$')
    if number then
      local expiry = P .. ':expiry:' .. b.name
      local expires = call('ZSCORE', expiry, member)
      if expires then
        call('ZREM', expiry, member)
        call('ZADD', expiry, expires, parked)
      end
    end
    join(b, c, at - now, number or int(at), parked or member)
    b.later = b.later - 1
  end
end

local function visit(name)
  local b = bucket(name)
  local c = class(b.class)
  if b.aside and b.line + b.later > 0 then seldom().expire(b, c) end
  if b.later > 0 then
    join_line(b, c)
    write_lines()
  end
  for _ = 1, BATCH do
    if b.line == 0 or taken >= want or bytes <= 0 or b.suspended then break end
    local n = allowed(b, c)
    if n <= 0 then break end
    drain(b, c, n)
  end
  reindex(b)
  if b.suspended then call('ZADD', P .. ':due:' .. b.class, int(now + SUSPECT_WAIT), b.name) end
end

local function serve(cname)
  local c = class(cname)
  touched[cname] = true
  if not c or c.paused or (c.hold and c.hold > 0) then return end
  while taken < want and visits < BATCH and bytes > 0 do
    local n = min(want - taken, BATCH - visits)
    local names = call('ZRANGEBYSCORE', P .. ':due:' .. cname, '-inf', int(now), 'LIMIT', 0, n)
    for _, name in ipairs(names) do
      if taken >= want or bytes <= 0 then return end
      visits = visits + 1
      local ok, err = pcall(visit, name)
      if not ok then seldom().set_aside_sick(name, err) end
    end
    if #names < n then return end
  end
end

-- wanted lists the served classes with their earliest dues, earliest first.
local function wanted()
  local list = {}
  if #ARGV < CLASSES then
    local v = call('ZRANGE', P .. ':due', 0, BATCH - 1, 'WITHSCORES')
    for i = 1, #v, 2 do list[#list + 1] = { v[i], score(v[i + 1]) } end
    return list
  end
  for i = CLASSES, #ARGV do
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
    identify()
    serve(entry[1])
  end
end
if taken > 0 then call('HSET', OUT, unpack(outs)) end

-- cancels lists the jobs out here that were cancelled, again and again until the worker has seen them. One that ended before
-- is not listed: its ref may be another job's by now, which may leave in this very call.
local function cancels()
  local key, list = P .. ':cancel:' .. worker, {}
  local all = call('HGETALL', key)
  for i = 1, #all, 2 do
    local told = all[i + 1] + 0
    if told > 0 and told <= seen or not redis.pcall('HGET', JOB .. all[i], 'cancel') then
      call('HDEL', key, all[i])
    else
      call('HSET', key, all[i], number)
      list[#list + 1] = all[i]
    end
  end
  return list
end
local cancelled = cancels()
finish(true)

local soonest = wanted()[1]
local wait = -1
if soonest and soonest[2] < math.huge then wait = max(0, soonest[2] - now) end
local settings = {}
for name, c in pairs(served) do
  settings[#settings + 1] = { name, c.version, c.timeout, c.http, c.retention, c.strict and 1 or 0 }
end
return { 'ok', now, wait, returned, visits, settings, names, departures, since, last_change, cancelled, left_suspects }

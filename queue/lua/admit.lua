-- admit: a batch of submissions to buckets of one shard, each answered on its own. Idempotent by job identity: a known
-- identity changes nothing and is answered as the first time.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     ten per job, at most 100 jobs: ref, class, key, id, type, payload, digest (of type and payload), max_wait
--          (us, 0 none), not_before (us, 0 none), others (jobs of the class waiting in other shards, -1 unknown)
-- returns  one array per job:
--          admitted | duplicate, position, level, capacity, estimated start (us), admitted at (us)
--          full | class_full | would_expire, retry-after (us, -1 unknown: paused), level, capacity, T (us), when room is
--          expected (us)
--          too_large, the class's limit;  conflict;  unknown_class;  count (max_jobs needs others)
-- cost     O(log n) per job, about 12 calls
local FIELDS = 10
-- Buckets that join in one call would depart together for ever; each starts this much (us) after the one before.
local SPREAD = 100
local joined = 0

local function answer_known(known, cname, key, id, digest)
  if known[3] ~= cname or known[4] ~= key or known[5] ~= id or known[1] ~= digest then return { 'conflict' } end
  return { 'duplicate', string.match(known[2], '(%S+) (%S+) (%S+) (%S+) (%S+)') }
end

-- room_at is when a place opens: the departure that brings the level below capacity, or, where delayed jobs hold the
-- places, the time the one needed for it joins the line.
local function room_at(b, c)
  local need = b.line + b.later - c.capacity + 1
  local at = next_start(b, c) + (need - 1) * c.T
  if need > b.line then
    local v = redis.call('ZRANGE', P .. ':later:' .. b.name, need - b.line - 1, need - b.line - 1, 'WITHSCORES')
    if v[2] then at = math.max(at, score(v[2]) - now) end
  end
  return at
end

-- refusal is the answer of every kind of no-room. at is the offset to come back at, nil when nobody can tell.
local function refusal(kind, b, c, at, room)
  count(b.class, 'rejected_' .. kind, 1)
  return { kind, at and math.max(0, math.ceil(at)) or -1, b.line + b.later, c.capacity, math.ceil(c.T),
    int(now + math.ceil(room or 0)) }
end

-- refuse_full tells producers different times, an interval apart, as if they stood in a line, so that they come back as
-- places open and not all at once. One number remembers where the line ends.
local function refuse_full(b, c)
  if b.paused or c.paused then return refusal('full', b, c) end
  local earliest = room_at(b, c)
  local told = earliest
  if b.told then
    told = math.max(b.told + c.T, earliest)
    if told > earliest + c.capacity * c.T then told = earliest end
  end
  b.told = told
  set(b, 'told', int(now + math.ceil(told)))
  return refusal('full', b, c, told, earliest)
end

local function refuse_class(b, c)
  local at = not c.paused and (first(P .. ':due:' .. b.class) or c.T) or nil
  if at == math.huge then at = nil end
  return refusal('class_full', b, c, at, at)
end

-- spread gives an idle bucket its phase. Only buckets that would be due at once are moved.
local function spread(b, c)
  if b.line + b.later > 0 or due(b, c) > 0 then return end
  set_slot(b, math.min(joined * SPREAD, c.T / 10) - c.T)
  joined = joined + 1
end

local function place(b, c, ref, not_before, ahead)
  local number = math.max(b.number + 1, now)
  b.number = number
  set(b, 'number', int(number))
  if not_before <= 0 then
    join(b, c, 0)
    redis.call('ZADD', P .. ':line:' .. b.name, int(number), ref)
    b.line = b.line + 1
    return number, nil
  end
  -- A delayed job's place in the line is decided by the time it joins, and only then by its admission number.
  local member = member_of(number, ref)
  redis.call('ZADD', P .. ':later:' .. b.name, int(now + not_before), member)
  b.later = b.later + 1
  return now + not_before, member
end

local function admit(i)
  local ref, cname, key, id = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local payload, digest = ARGV[i + 5], ARGV[i + 6]
  local c = class(cname)
  if not c or c.removed then return { 'unknown_class' } end
  local job = P .. ':job:' .. ref
  local known = redis.call('HMGET', job, 'digest', 'answer', 'class', 'key', 'id')
  if known[1] then
    local answer = answer_known(known, cname, key, id, digest)
    count(cname, answer[1] == 'conflict' and 'rejected_conflict' or 'duplicate', 1)
    return answer
  end
  if #payload > c.max_payload then
    count(cname, 'rejected_too_large', 1)
    return { 'too_large', c.max_payload }
  end

  local b = bucket(cname .. '/' .. key)
  if b.line + b.later >= c.capacity then expire(b, c) end
  if b.line + b.later >= c.capacity then return refuse_full(b, c) end
  if c.max_jobs > 0 then
    local others = tonumber(ARGV[i + 9])
    if others < 0 then return { 'count' } end
    if standing(cname) + others >= c.max_jobs then return refuse_class(b, c) end
  end

  spread(b, c)
  local not_before = tonumber(ARGV[i + 8])
  not_before = not_before > now and not_before - now or 0
  local ahead = b.line
  if b.later > 0 then ahead = ahead + redis.call('ZCOUNT', P .. ':later:' .. b.name, '-inf', int(now + not_before)) end
  local start = math.max(next_start(b, c) + ahead * c.T, not_before)
  local max_wait = tonumber(ARGV[i + 7])
  if max_wait == 0 or (c.max_wait > 0 and c.max_wait < max_wait) then max_wait = c.max_wait end
  if max_wait > 0 and start > not_before + max_wait then
    local over = start - not_before - max_wait
    return refusal('would_expire', b, c, over, over)
  end

  local number, member = place(b, c, ref, not_before)
  local at = int(now + math.ceil(start))
  local level = b.line + b.later
  local fields = { 'class', cname, 'key', key, 'id', id, 'type', ARGV[i + 4], 'payload', payload, 'digest', digest,
    'number', int(number), 'at', int(now), 'answer',
    (ahead + 1) .. ' ' .. level .. ' ' .. c.capacity .. ' ' .. at .. ' ' .. int(now) }
  if member then
    fields[#fields + 1] = 'member'
    fields[#fields + 1] = member
  end
  if max_wait > 0 then
    local expires = int(now + not_before + max_wait)
    redis.call('ZADD', P .. ':expiry:' .. b.name, expires, member or ref)
    fields[#fields + 1] = 'expires'
    fields[#fields + 1] = expires
  end
  redis.call('HSET', job, unpack(fields))
  count(cname, 'admitted', 1)
  return { 'admitted', ahead + 1, level, c.capacity, at, int(now) }
end

local answers = {}
for i = 1, #ARGV, FIELDS do answers[#answers + 1] = admit(i) end
finish()
return answers

-- admit: a batch of submissions to buckets of one shard, each answered on its own. Idempotent by job identity: a known
-- identity changes nothing and is answered as the first time.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     six per job, at most 100 jobs: ref, bucket (class/key), run (id, type with trace, and payload, a line each), is (digest of
--          all that, then id and bucket, a line each), size of the payload, options: empty, or max_wait (us, 0 none),
--          not_before (us, 0 none), others (jobs of the class that wait in other shards, -1 unknown) and flags: a, the
--          receipt's ack is decided; f, the store is nearly full
-- returns  six values per job, the first one of
--          1 admitted, 2 duplicate: position, level, capacity, wait (us), admitted at (us); admitted by dropping another:
--            1, the position and the dropped ref as one text, and the rest
--          3 full, 4 class_full, 5 would_expire: retry-after (us, -1 unknown: paused), level, capacity, T (us), when room
--            is expected (us)
--          6 too_large: the class's limit;  7 conflict;  8 unknown_class;  9 count: max_jobs needs others;  10 sick: the
--            bucket is broken, and nothing was admitted;  11 draining;  12 store_full;  13 ack: 0 memory, -1 fsynced, n
--            replicated(n): send it again so that this can be vouched for
-- cost     O(log n) per job, 4 calls and 4 more for a bucket that was empty
local FIELDS = 6
-- Buckets that join in one call would depart together for ever; each starts this much (us) after the one before.
local SPREAD = 250
local ADMITTED, DUPLICATE, FULL, CLASS_FULL, WOULD_EXPIRE, TOO_LARGE, CONFLICT, UNKNOWN_CLASS, COUNT = 1, 2, 3, 4, 5, 6, 7, 8, 9
local SICK, DRAINING, STORE_FULL, ACK = 10, 11, 12, 13
local NOW = int(now)
local find = string.find
local joined = 0
local answers, answered = {}, 0
local jobs = {} -- their keys

local function answer(kind, a, b, c, d, e)
  local n = answered
  answers[n + 1], answers[n + 2], answers[n + 3] = kind, a or 0, b or 0
  answers[n + 4], answers[n + 5], answers[n + 6] = c or 0, d or 0, e or 0
  answered = n + FIELDS
end

-- What is answered to jobs that are not simply admitted.
local otherwise = lazy(function()
  local function answer_known(cname, job, known, is)
    if known ~= is then
      count(cname, 'rejected_conflict', 1)
      return answer(CONFLICT)
    end
    count(cname, 'duplicate', 1)
    local at, wait, position, level, capacity =
      match(call('HGET', job, 'meta'), '%S+ (%S+) (%S+) (%S+) (%S+) (%S+)')
    answer(DUPLICATE, position + 0, level + 0, capacity + 0, wait + 0, at + 0)
  end

  -- fits_at is when a job that may join the line from an offset on would wait no longer than it may, if it came back alone,
  -- and not before another offset. free is the slot behind all that is in line by then: who joins takes one.
  local function fits_at(b, c, from, wait, at)
    local free = next_start(b, c) + b.line * b.T
    if free > from + wait then at = max(at, free - wait) end
    if b.later == 0 then return at end
    local v = call('ZRANGE', P .. ':later:' .. b.name, 0, BATCH - 1, 'WITHSCORES')
    for i = 2, #v, 2 do
      local joins = score(v[i]) - now
      if joins > max(ceil(at), from) then break end
      free = max(free, joins) + b.T
      if free > from + wait then at = max(at, free - wait) end
    end
    return at
  end

  -- refuse answers every kind of no-room. at is the offset to come back at, nil when nobody can tell.
  local function refuse(kind, word, b, c, at, room)
    count(b.class, 'rejected_' .. word, 1)
    answer(kind, at and max(0, ceil(at)) or -1, b.line + b.later, c.capacity, ceil(b.T),
      now + ceil(room or 0))
  end

  -- refuse_full tells producers different times, an interval apart, as if they stood in a line, so that they come back as
  -- places open and not all at once. One number remembers where the line ends. Room alone does not help a job that would
  -- then wait longer than it may.
  local function refuse_full(b, c, from, wait)
    call('HINCRBY', P .. ':bucket:' .. b.name, 'overflowed', 1) -- for people; forgotten with the bucket
    if b.paused or c.paused then return refuse(FULL, 'full', b, c) end
    local earliest = seldom().room_at(b, c, next_start(b, c))
    local expected = seldom().room_at(b, c, max(due(b, c), b.hold or -math.huge)) -- stands still while nobody drains
    local told = earliest
    if b.told then
      told = max(b.told + b.T, earliest)
      if told > earliest + (c.capacity + 1 / 16) * b.T then told = earliest end -- a little more, since told was rounded up
    end
    b.told = told
    set(b, 'told', int(now + ceil(told)))
    refuse(FULL, 'full', b, c, wait > 0 and fits_at(b, c, from, wait, told) or told, expected)
  end

  local function refuse_class(b, c)
    local at = not c.paused and (first(P .. ':due:' .. b.class) or b.T) or nil
    if at == math.huge then at = nil end
    refuse(CLASS_FULL, 'class_full', b, c, at, at)
  end

  -- drop_oldest makes room: the job that would leave next goes, or, where none is in line, the one that would join first.
  local function drop_oldest(b, c)
    write_lines()
    local member = call('ZRANGE', P .. ':line:' .. b.name, 0, 0)[1] or call('ZRANGE', P .. ':later:' .. b.name, 0, 0)[1]
    if b.aside then call('ZREM', P .. ':expiry:' .. b.name, member) end
    seldom().drop_waiting(b, c, member, 'dropped')
    return ref_of(member)
  end

  return {
    answer_known = answer_known, fits_at = fits_at, refuse = refuse, refuse_full = refuse_full, refuse_class = refuse_class,
    drop_oldest = drop_oldest,
  }
end)

-- spread gives an idle bucket its phase. Only buckets that would be due at once are moved.
local function spread(b, c)
  if b.line + b.later > 0 or due(b, c) > 0 then return end
  set_slot(b, min(joined * SPREAD, b.T / 4) - b.T)
  joined = joined + 1
end

-- place puts a job into line or later and returns its number there, and its member when that is not its ref.
local function place(b, c, ref, not_before)
  local number = next_stamp()
  if not_before <= 0 then
    number = int(number)
    join(b, c, 0, number, ref)
    return number, nil
  end
  -- A delayed job's place in the line is decided by the time it joins, and only then by its admission number.
  local member = member_of(number, ref)
  local joins = int(now + not_before)
  set_aside(b)
  call('ZADD', P .. ':later:' .. b.name, joins, member)
  b.later = b.later + 1
  return joins, member
end

-- options reads what few jobs have. not_before becomes an offset, 0 for none or past.
local function options(text, c)
  if text == '' then return c.max_wait, 0, -1 end
  local max_wait, not_before, others, flags = match(text, '^(%S+) (%S+) (%S+) ?(.*)$')
  max_wait, not_before = max_wait + 0, not_before + 0
  if max_wait == 0 or (c.max_wait > 0 and c.max_wait < max_wait) then max_wait = c.max_wait end
  return max_wait, not_before > now and not_before - now or 0, others + 0, flags
end

-- measure keeps a bound on the payloads of a class, in steps of twice the size, so that depart knows how many fit a reply.
local function measure(c, cname, size)
  if size <= c.largest then return end
  c.largest = 256
  while c.largest < size do c.largest = 2 * c.largest end
  call('HSET', P .. ':class:' .. cname, 'largest', c.largest)
end

-- write stores the job itself.
local function write(i, b, c, member, number, start, position, expires, wait)
  local job = jobs[(i - 1) / FIELDS + 1]
  local meta = format('%s %s %d %d %d %d', number, NOW, ceil(start), position, b.line + b.later, c.capacity)
  call('HSET', job, 'run', ARGV[i + 2], 'is', ARGV[i + 3], 'meta', meta)
  if member then call('HSET', job, 'member', member) end
  if b.held > 0 then call('HSET', job, 'held', int(b.held)) end
  if expires then
    set_aside(b)
    call('HSET', job, 'expires', expires, 'wait', int(wait))
    call('ZADD', P .. ':expiry:' .. b.name, expires, member or ARGV[i])
  end
end

local function admit(i, fresh)
  local name, size = ARGV[i + 1], ARGV[i + 4] + 0
  local b = buckets[name]
  local cname = b and b.class or class_of(name)
  local c = class(cname)
  if not c or c.removed then return answer(UNKNOWN_CLASS) end
  if not fresh then
    local job = JOB .. ARGV[i]
    local known = call('HGET', job, 'is')
    if known then return otherwise().answer_known(cname, job, known, ARGV[i + 3]) end
  end
  if size > c.max_payload then
    count(cname, 'rejected_too_large', 1)
    return answer(TOO_LARGE, c.max_payload)
  end
  b = b or bucket(name)
  if b.draining or c.draining then
    count(cname, 'rejected_draining', 1)
    return answer(DRAINING)
  end
  local max_wait, not_before, others, flags = options(ARGV[i + 5], c)
  if flags and find(flags, 'f', 1, true) then
    count(cname, 'rejected_store_full', 1)
    return answer(STORE_FULL)
  end
  if c.ack ~= 'memory' and not (flags and find(flags, 'a', 1, true)) then
    return answer(ACK, match(c.ack, '%d+') or -1)
  end
  if b.line + b.later >= c.capacity and not b.swept then
    b.swept = true -- once a call: else a later job of it might find the room that an earlier one was refused
    seldom().expire(b, c)
  end
  local full = b.line + b.later >= c.capacity
  if full and not c.drop_oldest then return otherwise().refuse_full(b, c, not_before, max_wait) end
  if c.max_jobs > 0 then
    if others < 0 then return answer(COUNT) end
    if seldom().standing(cname) + others >= c.max_jobs + (full and 1 or 0) then return otherwise().refuse_class(b, c) end
  end

  spread(b, c)
  local ahead = b.line
  if b.later > 0 then ahead = ahead + call('ZCOUNT', P .. ':later:' .. b.name, '-inf', now + not_before) end
  if full then ahead = max(ahead - 1, 0) end -- the first of them goes
  local start = max(next_start(b, c) + ahead * b.T, not_before)
  local expires = max_wait > 0 and not_before + max_wait or nil
  if expires and start > expires then
    local at = not (b.paused or c.paused) and otherwise().fits_at(b, c, not_before, max_wait, 0) or nil
    return otherwise().refuse(WOULD_EXPIRE, 'would_expire', b, c, at, at)
  end
  local dropped = full and otherwise().drop_oldest(b, c)
  measure(c, cname, #ARGV[i + 2])
  local number, member = place(b, c, ARGV[i], not_before)
  write(i, b, c, member, number, start, ahead + 1, expires and int(now + expires), max_wait)
  count(cname, 'admitted', 1)
  local position = ahead + 1
  answer(ADMITTED, dropped and format('%d ', position) .. dropped or position, b.line + b.later, c.capacity, ceil(start), now)
end

-- What is refused because the store is nearly full is still told when it is a duplicate: this write, which a full Redis
-- never refuses, opens the script for that. All submissions of a call come with the flag or none does.
if find(ARGV[FIELDS], ' f', 1, true) then call('DEL', P .. ':-') end

-- Most batches hold only new jobs, each once: one question about all of them answers that.
local seen, twice, n = {}, false, 0
for i = 1, #ARGV, FIELDS do
  local ref = ARGV[i]
  n = n + 1
  jobs[n] = JOB .. ref
  twice = twice or seen[ref]
  seen[ref] = true
end
local fresh = not twice and call('EXISTS', unpack(jobs)) == 0
for i = 1, #ARGV, FIELDS do
  local ok, err = pcall(admit, i, fresh)
  if not ok then
    seldom().set_aside_sick(ARGV[i + 1], err)
    answer(SICK)
  end
end
finish()
return answers

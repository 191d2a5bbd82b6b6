-- buckets: what all scripts share of one bucket: its state, the outflow law, joining and leaving it, the end of a job, and
-- the due index that every script ends with.

local buckets = {}
local joining = {} -- buckets whose line has members to be written
local touched = {} -- classes whose due index may have changed

-- offset_of reads a time that slot_text wrote.
local function offset_of(text)
  return sub(text, 1, -8) - now + sub(text, -7)
end

-- apart reads what few buckets have.
local function apart(b)
  b.later = call('ZCARD', P .. ':later:' .. b.name)
  local v = call('HMGET', P .. ':bucket:' .. b.name, 'draining', 'backoff', 'started', 'adapted', 'held')
  b.draining = v[1]
  b.backoff = v[2] and match(v[2], '^%S+') - now or nil -- until when its head, held back by order hold, waits
  b.started = v[3] and offset_of(v[3]) -- the last start of a class with strict pace
  b.adapted = v[4]
  b.held = (v[5] or 0) + 0
end

-- adapt sets the interval of a bucket whose rate follows what its service bears. What was adapted is the share of the rate
-- after the last cut, when that was (us), how long (us) it takes to rise from nothing to all, and what the service bore.
-- It rises with time alone, so that there is nothing to write on the way, and an idle bucket forgets in the end.
local function adapt(b, c)
  local share = c.fastest
  if b.adapted then
    local low, at, rise = match(b.adapted, '^(%S+) (%S+) (%S+)')
    share = max(c.slowest, min(c.fastest, low + (now - at) / rise))
    b.recovers = (c.fastest - low) * rise - (now - at)
  end
  b.share = share
  b.T = c.T / share
end

-- bucket loads a bucket once per call. slot is an offset from now, or nil when nothing is remembered. aside tells whether
-- it has more to it since it was last gone: jobs that are delayed, expire or came back, or what apart reads. Most have not,
-- and cost no look.
local function bucket(name)
  local b = buckets[name]
  if b then return b end
  local v = call('HMGET', P .. ':bucket:' .. name, 'slot', 'hold', 'paused', 'told', 'aside')
  local cname = class_of(name)
  local c = class(cname)
  b = {
    name = name,
    class = cname,
    hold = v[2] and v[2] - now or nil,
    paused = v[3],
    told = v[4] and v[4] - now or nil,
    aside = v[5],
    flight = c and c.tracked and call('SCARD', P .. ':flight:' .. name) or 0, -- what it has out
    adds = nil, -- what joins the line in this call: number, member, …
    added = 0,
    held = 0, -- how long (us) holds have kept it from letting go, in all
    line = call('ZCARD', P .. ':line:' .. name),
    later = 0,
  }
  if c then b.T = c.T end
  if v[5] then apart(b) end
  if c and c.slowest then adapt(b, c) end
  if v[1] then b.slot = offset_of(v[1]) end
  if b.slot and b.slot > 0 then -- the clock was set back: nothing can have left later than now
    b.slot = 0
    b.changed, b.slot_moved = true, true
  end
  buckets[name] = b
  return b
end

-- set changes a field of a bucket. Whatever changes what reindex reads must set changed.
local function set(b, field, value)
  b.changed = true
  if not b.fields then b.fields = {} end
  b.fields[field] = value
end

local function set_aside(b)
  b.changed = true
  if not b.aside then set(b, 'aside', '1') end
  b.aside = '1'
end

local function set_slot(b, offset)
  b.changed = true
  b.slot_moved = true
  b.slot = offset
end

-- slot_text is a slot as it is stored: whole microseconds and six decimals of one.
local function slot_text(offset)
  local whole = floor(offset)
  return format('%d.%06d', now + whole, floor((offset - whole) * 1e6))
end

-- epoch is the offset of the moment since which the server's data may be older than what happened, or nil: see depart.
local epoch
local since = 0 -- that moment, 0 never

-- made_in is the epoch that a class was made in.
local function made_in(c)
  if not c.made then c.made = (call('HGET', P .. ':class:' .. c.name, 'made') or 0) + 0 end
  return c.made
end

-- due is the offset of the earliest next departure: slot + T with the T of now, so that a changed rate counts at once. No
-- slot is later than now, so that a clock set back does not close a bucket.
local function due(b, c)
  local at = b.slot and b.slot + b.T or 0
  if epoch and made_in(c) ~= since then return max(at, epoch + b.T) end -- nothing of a class made after it has left before
  return at
end

-- opens is when a bucket that is due lets go, math.huge for not before something else happens.
local function opens(b, c)
  if b.paused or (c.bound > 0 and b.flight >= c.bound) then return math.huge end
  local at = due(b, c)
  if b.hold then at = max(at, b.hold) end
  if b.backoff then at = max(at, b.backoff) end
  return at
end

-- next_start is when the head of the line would leave.
local function next_start(b, c)
  local at = max(due(b, c), b.hold or 0, b.backoff or 0, 0)
  return c.hold and max(at, c.hold) or at
end

-- join adds a member to the line at an offset. A bucket earns no credit while it is empty.
local function join(b, c, offset, number, member)
  if b.line == 0 then
    b.changed = true
    if not b.slot or b.slot < offset - b.T then set_slot(b, offset - b.T) end
  end
  b.line = b.line + 1
  local n = b.added
  if n == 0 then
    b.adds = {}
    joining[#joining + 1] = b
  end
  b.adds[n + 1], b.adds[n + 2] = number, member
  b.added = n + 2
end

-- write_lines puts what joined into the lines, one call per bucket.
local function write_lines()
  for i = 1, #joining do
    local b = joining[i]
    call('ZADD', P .. ':line:' .. b.name, unpack(b.adds))
    b.added = 0
  end
  joining = {}
end

local stamp -- the shard's last number, shared by admissions and departures
local stamp_before -- what was stored when the script began, if it has been read

-- next_stamp is never given twice and grows with time, also when the clock is set back.
local function next_stamp()
  if not stamp then stamp = (stamp_before or call('GET', P .. ':stamp') or 0) + 0 end
  stamp = max(stamp + 1, now)
  return stamp
end

local awaited -- whether somebody waits for the end of any job of the shard

local function anyone_waits()
  if awaited == nil then awaited = call('EXISTS', P .. ':awaits') == 1 end
  return awaited
end

---------------------------------------------------------------------------------------------------------- due index

-- first is the lowest score of a sorted set as an offset from now, or nil.
local function first(key)
  local v = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return v[2] and score(v[2]) - now or nil
end

-- means_until is how long what is stored of a bucket without jobs means something.
local function means_until(b, c)
  local at = max(due(b, c), b.hold or 0)
  if b.started then at = max(at, b.started + b.T) end
  if b.recovers and c.slowest then at = max(at, b.recovers) end
  return at
end

-- forgettable tells whether a bucket has nothing that must be remembered.
local function forgettable(b, c)
  if b.line + b.later > 0 or ((b.paused or b.draining) and not c.removed) then return false end
  return means_until(b, c) <= 0
end

-- opening is the offset at which depart should next look at a bucket; math.huge for never.
local function opening(b, c)
  if b.line + b.later == 0 then
    if (b.paused or b.draining) and not c.removed then return math.huge end
    return means_until(b, c)
  end
  local at = c.removed and max(due(b, c), b.hold or 0) or opens(b, c)
  if b.line == 0 then at = max(at, first(P .. ':later:' .. b.name) or 0) end
  if b.aside then
    local expires = first(P .. ':expiry:' .. b.name)
    if expires then at = min(at, expires + c.catch_up + 1) end
  end
  return at
end

-- write_fields stores what changed of a bucket; mostly that is its slot alone.
local function write_fields(b)
  local key, fields = P .. ':bucket:' .. b.name, b.fields
  if b.slot_moved then
    call('HSET', key, 'slot', slot_text(b.slot))
    b.slot_moved = false
  end
  if not fields then return end
  b.fields = nil
  for field, value in pairs(fields) do call('HSET', key, field, value) end
end

-- reindex writes a bucket's own fields and sets or clears its entry in the due index, as a pure function of its state.
-- Every script ends with it for every bucket whose state it changed. An empty bucket stays until its due has passed: it
-- must remember its slot that long, and no longer.
local function reindex(b)
  local c = class(b.class)
  local index = P .. ':due:' .. b.class
  touched[b.class] = true
  if forgettable(b, c) then
    call('DEL', P .. ':bucket:' .. b.name)
    call('ZREM', index, b.name)
    b.changed, b.slot_moved, b.fields = false, false, nil
    return
  end
  b.changed = false
  write_fields(b)
  local at = opening(b, c)
  call('ZADD', index, at == math.huge and '+inf' or int(now + ceil(at)), b.name)
end

-- reindex_class keeps a class's earliest due, and wakes workers when it became earlier.
local function reindex_class(cname, quiet)
  local c = class(cname)
  local v = call('ZRANGE', P .. ':due:' .. cname, 0, 0, 'WITHSCORES')
  if not v[2] then
    call('ZREM', P .. ':due', cname)
    if c and c.removed then
      call('DEL', P .. ':class:' .. cname, P .. ':stats:' .. cname)
      call('SREM', P .. ':classes', cname)
    end
    return
  end
  local was = call('ZSCORE', P .. ':due', cname)
  local at = c and c.paused and math.huge or score(v[2])
  if c and c.hold then at = max(at, int(now + c.hold) + 0) end
  if was and score(was) == at then return end
  call('ZADD', P .. ':due', at == math.huge and '+inf' or int(at), cname)
  if not quiet and at < math.huge and (not was or at < score(was)) then
    call('PUBLISH', P .. ':wake', int(at) .. ' ' .. cname)
  end
end

-- finish ends a script: every changed bucket and class is indexed again and the books are written.
local function finish(quiet)
  write_lines()
  if stamp then call('SET', P .. ':stamp', int(stamp)) end
  for _, b in pairs(buckets) do
    if b.changed and class(b.class) then reindex(b) end
  end
  write_books()
  for cname in pairs(touched) do reindex_class(cname, quiet) end
end

-- returns: what the scripts share that end departures: a job's past, its return to its bucket, and dead jobs.
local returns = lazy(function()
  -- A job's past, when it has one: departures given back as stale, attempts that ended, and how many of those failed and
  -- crashed since it last came in.
  local function past_of(text)
    local backs, attempts, fails, crashes = match(text or '0 0 0 0', '(%d+) (%d+) (%d+) (%d+)')
    return { backs = backs + 0, attempts = attempts + 0, fails = fails + 0, crashes = crashes + 0 }
  end

  local function past_text(p)
    return format('%d %d %d %d', p.backs, p.attempts, p.fails, p.crashes)
  end

  -- suspect tells whether one more crash condemns a job, so that it must run apart from others of its kind.
  local function suspect(c, p)
    return p.crashes >= max(1, c.max_crashes - 1)
  end

  local ATTEMPTS_KEPT = 100

  -- record adds an attempt that has ended to a job's history. times is the due time and the start.
  local function record(job, p, outcome, stamp, times, worker, text)
    p.attempts = p.attempts + 1
    call('HSET', job, 'past', past_text(p), 'a' .. p.attempts,
      format('%s %s %s %d %s\n%s', outcome, stamp, times, now, worker, text))
    if p.attempts > ATTEMPTS_KEPT then call('HDEL', job, 'a' .. (p.attempts - ATTEMPTS_KEPT)) end
  end

  -- release ends a departure's place among what its bucket has out.
  local function release(name, ref)
    local c = class(class_of(name))
    if not c or not c.tracked then return end
    if call('SREM', P .. ':flight:' .. name, ref) == 0 then return end
    local loaded = buckets[name]
    local ok, b = pcall(bucket, name)
    if not ok then return end
    if loaded then b.flight = b.flight - 1 end
    b.changed = true
  end

  -- job_fields reads what is needed to know of a departed job. It never raises an error.
  local function job_fields(ref)
    return redis.pcall('HMGET', JOB .. ref, 'meta', 'member', 'expires', 'cancel', 'past', 'wait', 'is')
  end

  -- comes_back tells what returning a departed job needs: its bucket, class and fields; nothing when it does not come back:
  -- the job or its bucket is broken, or the job was cancelled while it was out. v is its job_fields, if they were read.
  local function comes_back(name, ref, v)
    local cname = class_of(name)
    v = v or job_fields(ref)
    local ok, b = pcall(bucket, name)
    local c = class(cname)
    if ok and c and not v.err and v[4] then
      count(cname, 'cancelled_out', 1)
      seldom().end_job(c, ref, 'cancelled')
      return nil
    end
    count(cname, 'returned', 1)
    if not ok then seldom().set_aside_sick(name, b) end
    if not ok or v.err or not v[1] or not c then
      count(cname, 'sick', 1)
      return nil
    end
    return b, c, { number = match(v[1], '^(%S+)'), meta = v[1], member = v[2], expires = v[3], past = v[5], wait = v[6] }
  end

  -- rejoin puts a departed job into its line again, under its old number.
  local function rejoin(b, ref, v)
    local member = v.member or ref
    join(b, class(b.class), 0, v.number, member)
    if b.aside or v.member or v.expires or v.past then set_aside(b) end -- a suspect behind it may keep the bucket waiting
    if v.expires then call('ZADD', P .. ':expiry:' .. b.name, v.expires, member) end
  end

  -- give_back returns a departed job that has not started to its line, and its bucket, or nil when the job or its bucket is
  -- gone or broken. The caller has removed it from out.
  local function give_back(name, ref)
    local b, _, v = comes_back(name, ref)
    if b then rejoin(b, ref, v) end
    return b, v
  end

  local DEAD_LIMITS = { 'dead_max', 'dead_keep' }

  -- trim removes the dead jobs of a class that are too many or too old, the oldest first, at most BATCH.
  local function trim(c, most)
    local key = P .. ':dead:' .. c.name
    local keep = call('HMGET', P .. ':class:' .. c.name, unpack(DEAD_LIMITS))
    most = most or tonumber(keep[1] or 100000)
    local over = call('ZCARD', key) - most
    local old = {}
    if over > 0 then old = call('ZRANGE', key, 0, min(over, BATCH) - 1) end
    if #old < BATCH and keep[2] then
      local aged = call('ZRANGEBYSCORE', key, '-inf', '(' .. int(now - keep[2]), 'LIMIT', 0, BATCH)
      if #aged > #old then old = aged end
    end
    for _, ref in ipairs(old) do
      call('ZREM', key, ref)
      seldom().end_job(c, ref)
      count(c.name, 'dead_dropped', 1)
    end
    return #old
  end

  -- bury keeps a job as dead.
  local function bury(c, ref, text)
    call('HSET', JOB .. ref, 'state', 'dead', 'error', text, 'ended', int(now))
    call('HDEL', JOB .. ref, 'cancel')
    call('ZADD', P .. ':dead:' .. c.name, int(now), ref)
    count(c.name, 'dead', 1)
    seldom().announce(ref, 'dead', text)
    trim(c)
  end

  return {
    past_of = past_of, past_text = past_text, suspect = suspect, record = record, release = release,
    job_fields = job_fields, comes_back = comes_back, rejoin = rejoin, give_back = give_back, trim = trim, bury = bury,
  }
end)

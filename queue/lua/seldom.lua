-- seldom: what few calls need of buckets and jobs, such as the end of a job: defined by the first that does (see lazy).

local seldom = lazy(function()
  -- standing reads off the books (law 5) how many jobs of a class hold a place in this shard, and how many are out.
  local function standing(cname)
    local fields = { 'admitted', 'returned', 'revived', 'departed', 'expired', 'cancelled', 'dropped', 'purged', 'sick',
      'done', 'dead', 'cancelled_out' }
    local v, b, total = call('HMGET', P .. ':stats:' .. cname, unpack(fields)), books[cname] or {}, {}
    for i, field in ipairs(fields) do total[field] = (tonumber(v[i]) or 0) + (b[field] or 0) end
    return total.admitted + total.returned + total.revived - total.departed - total.expired - total.cancelled
      - total.dropped - total.purged - total.sick,
      total.departed - total.returned - total.done - total.dead - total.cancelled_out
  end

  -- set_aside_sick takes a bucket that raises an error out of the due index, counts it and shows it: one bad bucket never
  -- stops a shard.
  local function set_aside_sick(name, err)
    local text = tostring(type(err) == 'table' and err.err or err)
    if string.find(text, 'OOM', 1, true) then error({ err = text }) end -- Redis is full, and nothing was written
    buckets[name] = nil
    call('ZREM', P .. ':due:' .. class_of(name), name)
    call('HSET', P .. ':sick', name, text)
    count(class_of(name), 'sick_buckets', 1)
  end

  -- clear removes a field of a bucket.
  local function clear(b, field)
    b.changed = true
    if b.fields then b.fields[field] = nil end
    call('HDEL', P .. ':bucket:' .. b.name, field)
  end

  -- announce tells those who wait for a job's end.
  local function announce(ref, state, text)
    if anyone_waits() and call('SREM', P .. ':awaits', ref) == 1 then
      call('PUBLISH', P .. ':end:' .. ref, state .. ' ' .. int(now) .. '\n' .. (text or ''))
    end
  end

  -- end_job leaves of a job what its class keeps: all of it for the retention, what its dedup window needs (the identity
  -- and the first answer), or nothing. A state of nil drops one that had ended before.
  local function end_job(c, ref, state, text)
    local key = JOB .. ref
    if state then announce(ref, state, text) end
    local retained = state and state ~= 'purged' and c.retention > 0
    if not retained and c.dedup == 0 then return call('DEL', key) end
    local v = call('HMGET', key, 'is', 'meta')
    if not v[1] or not v[2] then return call('DEL', key) end
    if retained then
      local kept = P .. ':ended:' .. ref
      call('HSET', key, 'state', state, 'ended', int(now))
      if text and state ~= 'done' then call('HSET', key, 'error', text) end
      call('RENAME', key, kept)
      call('PEXPIRE', kept, ceil(c.retention / 1000))
    else
      call('DEL', key)
    end
    local left = match(v[2], '^%S+ (%S+)') + c.dedup - now
    if c.dedup > 0 and left > 0 then
      call('HSET', key, 'is', v[1], 'meta', v[2])
      call('PEXPIRE', key, ceil(left / 1000))
    end
  end

  -- unblock opens a bucket whose head waited out its backoff in line, when that job is no longer there.
  local function unblock(b, ref)
    if not b.backoff then return end
    local held = match(call('HGET', P .. ':bucket:' .. b.name, 'backoff') or '', ' (.*)$')
    if held and held ~= ref then return end
    b.backoff = nil
    clear(b, 'backoff')
  end

  -- end_waiting ends a job that no handler had, and says so to who listens.
  local function end_waiting(b, c, ref, state)
    local is = call('HGET', JOB .. ref, 'is')
    end_job(c, ref, state)
    count(b.class, state, 1)
    call('PUBLISH', P .. ':ends', state .. ' ' .. ref .. '\n' .. (is and sub(is, 17) or '\n' .. b.name)) -- id and bucket, a line each
  end

  -- drop_waiting takes a waiting job out of its bucket for good and counts it under the state it ends in.
  local function drop_waiting(b, c, member, state)
    if call('ZREM', P .. ':line:' .. b.name, member) == 1 then
      b.line = b.line - 1
    elseif call('ZREM', P .. ':later:' .. b.name, member) == 1 then
      b.later = b.later - 1
    else
      return false
    end
    b.changed = true
    local ref = ref_of(member)
    unblock(b, ref)
    end_waiting(b, c, ref, state)
    return true
  end

  -- expired tells whether a job has waited longer than it may. A departure that is late by no more than the catch-up is
  -- on time, so a job that was told it would leave at the last moment does leave.
  local function expired(c, expires)
    return expires + c.catch_up < now
  end

  -- expire removes jobs that waited longer than they may, wherever they stand, at most BATCH.
  local function expire(b, c)
    if not b.aside then return end
    local key = P .. ':expiry:' .. b.name
    local old = call('ZRANGEBYSCORE', key, '-inf', '(' .. int(now - c.catch_up), 'LIMIT', 0, BATCH)
    for _, member in ipairs(old) do
      call('ZREM', key, member)
      drop_waiting(b, c, member, 'expired')
    end
  end

  -- room_at is when a place opens, if the head of the line leaves at an offset: the departure that brings the level below
  -- capacity. Where delayed jobs hold the places it is one of theirs, and none leaves before it joins.
  local function room_at(b, c, head)
    local need = b.line + b.later - c.capacity + 1
    if need <= b.line then return head + (need - 1) * b.T end
    local at = head + (b.line - 1) * b.T
    local v = call('ZRANGE', P .. ':later:' .. b.name, 0, min(need - b.line, BATCH) - 1, 'WITHSCORES')
    for i = 2, #v, 2 do at = max(at + b.T, score(v[i]) - now) end
    return at + max(need - b.line - BATCH, 0) * b.T
  end

  return {
    standing = standing, set_aside_sick = set_aside_sick, clear = clear, announce = announce, end_job = end_job,
    unblock = unblock, end_waiting = end_waiting, drop_waiting = drop_waiting, expired = expired, expire = expire, room_at = room_at,
  }
end)

-- settle: what became of departures, up to 64 at a time. Fenced: only a departure that is still out, with the same
-- stamp, is settled; anything a late or dead worker says about another is refused and counted.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     worker, then five per departure: ref, stamp, verdict, class, detail. The verdicts and their details:
--          done: empty, or "due started\nresult" (us)      cancelled: "due started\nerror"
--          fail, dead (for good): "due started delay jitter\nerror": the delay (us) a handler named, -1 none; jitter is a
--          random number below a million
--          back, stale (the same, for a departure that was no longer good): empty
--          held (the service asked to be left alone): "due started hold cut scope\nreason": hold (us); cut is 1 when it
--          refused for the rate, so that it adapts; scope is bucket or class
-- returns  per departure: 0 refused, 1 settled, 2 settled, and the job is dead
-- cost     O(log n) per departure, 4 calls in all and 1 to 10 per departure that is not simply done (those: done.lua)
local LONGEST = 720 * 3600 * 1000000 -- no delay is longer

-- What becomes of departures that are not simply done.
local fates = lazy(function()
  local r, end_job = returns(), seldom().end_job

  local function done(name, cname, ref, stamp, detail)
    count(cname, 'done', 1)
    local times, result = match(detail, '^(%S+ %S+)\n(.*)$')
    local c = class(cname)
    local job = JOB .. ref
    if times and c.retention > 0 and call('EXISTS', job) == 1 then
      r.record(job, r.past_of(call('HGET', job, 'past')), 'done', stamp, times, WORKER, '')
      if result ~= '' then call('HSET', job, 'result', result) end
    end
    end_job(c, ref, 'done', result)
  end

  local function cancelled(name, cname, ref, stamp, detail)
    local job = JOB .. ref
    local times, text = match(detail, '^(%S+ %S+)\n(.*)$')
    if call('EXISTS', job) == 1 then r.record(job, r.past_of(call('HGET', job, 'past')), 'cancelled', stamp, times, WORKER, text) end
    count(cname, 'cancelled_out', 1)
    end_job(class(cname), ref, 'cancelled', text)
  end

  local retries = {} -- class -> its settings for what failed

  local function retry_of(cname)
    local known = retries[cname]
    if not known then
      local v = call('HMGET', P .. ':class:' .. cname, 'max_attempts', 'backoff', 'max_backoff')
      known = { attempts = (v[1] or 5) + 0, lowest = (v[2] or 1000000) + 0, longest = (v[3] or 300000000) + 0 }
      retries[cname] = known
    end
    return known
  end

  -- backoff draws the time before the next attempt.
  local function backoff(cname, fails, jitter)
    local r = retry_of(cname)
    return r.lowest + (min(r.longest, r.lowest * 2 ^ fails) - r.lowest) * jitter / 1000000
  end

  -- aside puts a job where it waits out its delay: it joins the line then, under its old number (park) or behind all that
  -- were admitted before (tail).
  local function aside(b, ref, v, delay, tail)
    local joins = now + ceil(delay)
    local member = v.member or ref
    if tail then
      member = member_of(next_stamp(), ref)
      call('HSET', JOB .. ref, 'member', member, 'meta', int(joins) .. match(v.meta, ' .*$'))
    else
      member = '!' .. v.number .. ':' .. member
    end
    set_aside(b)
    call('ZADD', P .. ':later:' .. b.name, joins, member)
    b.later = b.later + 1
    if v.wait then
      local expires = int(joins + v.wait)
      call('HSET', JOB .. ref, 'expires', expires)
      call('ZADD', P .. ':expiry:' .. b.name, expires, member)
    end
  end

  -- retry sends a failed job back to its bucket.
  local function retry(b, c, ref, v, delay)
    if c.order ~= 'hold' then return aside(b, ref, v, delay, c.order == 'tail') end
    if v.wait then
      v.expires = int(now + ceil(delay) + v.wait)
      call('HSET', JOB .. ref, 'expires', v.expires)
    end
    r.rejoin(b, ref, v)
    if b.backoff and b.backoff > delay then return end -- of another one, that was out when the class got order hold
    b.backoff = delay
    set(b, 'backoff', int(now + ceil(delay)) .. ' ' .. ref)
  end

  local function fail(name, cname, ref, stamp, detail, for_good)
    local times, delay, jitter, text = match(detail, '^(%S+ %S+) (%S+) (%S+)\n(.*)$')
    local job = JOB .. ref
    local v = r.job_fields(ref)
    local p = r.past_of(not v.err and v[5] or nil)
    if v[7] then
      p.fails = p.fails + 1
      r.record(job, p, 'failed', stamp, times, WORKER, text)
      if not v[4] and (for_good or p.fails >= retry_of(cname).attempts) then
        r.bury(class(cname), ref, text)
        return true
      end
      v[5] = r.past_text(p)
    end
    local b, c, back = r.comes_back(name, ref, v)
    if not b then return end
    count(cname, 'retried', 1)
    delay = delay + 0
    if delay < 0 then delay = backoff(cname, p.fails, jitter + 0) end
    retry(b, c, ref, back, min(delay, LONGEST))
  end

  local function back(name, cname, ref, stale)
    local b, v = r.give_back(name, ref)
    if not b or not stale then return end
    local p = r.past_of(v.past)
    p.backs = p.backs + 1
    set_aside(b)
    call('HSET', JOB .. ref, 'past', r.past_text(p))
    count(cname, 'stale', 1)
  end

  -- cut lowers the rate of a bucket that adapts to a part of what its service refused. What left before the last cut says
  -- nothing about it.
  local CUT, RISE, SHORTEST = 0.85, 1000, 60000000 -- the part; intervals in which it rises from nothing to all, but at least us

  local function cut(b, c, stamp)
    local low, at, _, bore
    if b.adapted then low, at, _, bore = match(b.adapted, '^(%S+) (%S+) (%S+) (%S+)') end
    if at and stamp + 0 <= at + 0 then return end
    bore = bore and (bore + b.share) / 2 or b.share
    low = max(c.slowest, CUT * b.share)
    b.adapted = format('%.6f %d %d %.6f', low, now, max(RISE * c.T, SHORTEST), bore)
    set(b, 'adapted', b.adapted)
    adapt(b, c)
  end

  -- hold closes a bucket, or the whole class in this shard, for as long as the service asked for, if that is longer than it
  -- is closed already. The caller tells the other shards.
  local function hold(b, c, wait, scope, reason)
    if scope == 'class' then
      if c.hold and c.hold >= wait then return end
      c.hold = wait
      call('HSET', P .. ':class:' .. c.name, 'hold', int(now + wait), 'hold_reason', reason, 'special', '1')
      touched[c.name] = true
    elseif not b.hold or b.hold < wait then
      b.hold = wait
      set(b, 'hold', int(now + wait))
      set(b, 'hold_reason', reason)
    end
  end

  -- held returns a job that its service would not take now to the head of its line. It has not failed.
  local function held(name, cname, ref, stamp, detail)
    local times, wait, cuts, scope, reason = match(detail, '^(%S+ %S+) (%S+) (%S+) (%S+)\n(.*)$')
    local v = r.job_fields(ref)
    if not v.err and v[7] then
      local p = r.past_of(v[5])
      r.record(JOB .. ref, p, 'held', stamp, times, WORKER, reason)
      v[5] = r.past_text(p)
    end
    local b, c, back = r.comes_back(name, ref, v)
    if not b then return end
    count(cname, 'held', 1)
    set_aside(b)
    r.rejoin(b, ref, back)
    hold(b, c, ceil(min(wait + 0, LONGEST)), scope, reason)
    if cuts == '1' and c.slowest then cut(b, c, stamp) end
  end

  return { done = done, fail = fail, cancelled = cancelled, back = back, held = held }
end)

-- settle tells whether the job is dead.
local function settle(i, name)
  local ref, stamp, verdict, detail = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 4]
  local cname = class_of(name)
  returns().release(name, ref)
  if verdict == 'done' then
    fates().done(name, cname, ref, stamp, detail)
  elseif verdict == 'fail' or verdict == 'dead' then
    return fates().fail(name, cname, ref, stamp, detail, verdict == 'dead')
  elseif verdict == 'held' then
    fates().held(name, cname, ref, stamp, detail)
  elseif verdict == 'cancelled' then
    fates().cancelled(name, cname, ref, stamp, detail)
  else
    fates().back(name, cname, ref, verdict == 'stale')
  end
end

if #taken > 0 then call('HDEL', OUT, unpack(taken)) end
for n, ref in ipairs(refs) do
  local at = FIELDS * n - 3
  if results[n] == 1 then
    if settle(at, seen[ref]) then results[n] = 2 end
  elseif class(ARGV[at + 3]) then
    count(ARGV[at + 3], 'refused', 1)
  end
end
finish()
return results

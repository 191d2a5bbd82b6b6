-- reclaim: a worker is gone; what it had out returns to its buckets, in order, and costs a departure again. Either the
-- worker says so itself as it leaves, or another saw its beat, the number of its last depart call, stand still. Fenced by
-- that beat: a worker that lives has moved it. Nothing that a settled departure did is touched, and a departure that was
-- reclaimed cannot be settled any more.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     worker, beat (what was seen; empty: the worker itself leaves)
-- returns  refused | ok, returned, dead, left (call again until 0), and for each job that was running: its fate (line, dead
--          or cancelled), ref, attempt, id and bucket (a line each), error
-- cost     O(log n) per job, at most 64 per call, and O(workers)
local WORKER, BEAT = ARGV[1], ARGV[2]
local OUT = P .. ':out:' .. WORKER
local MOST = 64
local LAST = 9007199254740991 -- no call of a worker that has left is taken
local HOUR = 3600 * 1000000 -- a worker's name is remembered that long, so that a late call of it is known for what it is
call('DEL', P .. ':-') -- a write that a full Redis never refuses opens the script for the others

if BEAT ~= '' and call('HGET', P .. ':workers', WORKER) ~= BEAT then return { 'refused' } end

local r = returns()
local buried = 0
local reply = { 'ok', 0, 0, 0 }

local function tell(fate, ref, p, is, text)
  for _, v in ipairs({ fate, ref, p.attempts, sub(is, 17), text }) do reply[#reply + 1] = v end -- 17: see admit
end

-- crashed returns a job whose worker died. One that did so again and again is dead, if the last time it was the only
-- suspect that the worker had: those that merely ran beside it are not condemned.
local function crashed(name, ref, stamp)
  local job = JOB .. ref
  local v = redis.pcall('HMGET', job, 'past', 'cancel', 'is', 'apart')
  local c = class(class_of(name))
  if v.err or not v[3] or not c then return r.give_back(name, ref) end
  local p = r.past_of(v[1])
  if v[2] then
    p.attempts = p.attempts + 1
    r.give_back(name, ref)
    if buckets[name] then tell('cancelled', ref, p, v[3], 'its worker ' .. WORKER .. ' died or froze while it had the job') end
    return
  end
  local apart = v[4] == stamp -- it departed as a suspect; the class may have changed since
  p.crashes = apart and p.crashes + 1 or min(p.crashes + 1, max(1, c.max_crashes - 1))
  local text = format('crash: its worker %s died or froze while it had the job (%d times)', WORKER, p.crashes)
  r.record(job, p, 'crashed', stamp, '0 0', WORKER, text)
  if apart and p.crashes >= c.max_crashes then
    buried = buried + 1
    tell('dead', ref, p, v[3], text)
    return r.bury(c, ref, text)
  end
  tell('line', ref, p, v[3], text)
  r.give_back(name, ref)
end

local all = call('HGETALL', OUT)
local taken = 0
for i = 1, min(#all, 2 * MOST), 2 do
  local ref = all[i]
  call('HDEL', OUT, ref)
  local stamp, _, name = match(all[i + 1], OUT_ENTRY)
  r.release(name, ref)
  if BEAT == '' then r.give_back(name, ref) else crashed(name, ref, stamp) end
  taken = taken + 1
end
local left = #all / 2 - taken

if left == 0 then
  call('DEL', P .. ':cancel:' .. WORKER)
  call('HSET', P .. ':workers', WORKER, format('-%d %s', now, BEAT == '' and int(LAST) or BEAT))
  local workers = call('HGETALL', P .. ':workers')
  for i = 1, #workers, 2 do
    local since = match(workers[i + 1], '^-(%d+)')
    if since and since + HOUR < now then call('HDEL', P .. ':workers', workers[i]) end
  end
end
finish()
reply[2], reply[3], reply[4] = taken - buried, buried, left
return reply

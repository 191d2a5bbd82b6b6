-- record: what workers tell of themselves, and the history of classes: one point of each per slot (5 s) by the server's time.
-- All of it is in shard 0 and may be lost at any time: it is for people.
--
-- KEYS[1]  the shard's hash tag, that of shard 0
-- ARGV     report, worker, timings (how late its starts were since it last said so, for the point of the next slot; empty: none),
--            field, value, …: what it says of itself, kept for LASTS unless it says it again
--          claim: a point is to be recorded; whoever is first in a slot does it
--          append, day (1: in the rings of a day too), then class, point, point of a day
--          history, ring (recent or day), class: what was recorded
--          flow, ask (1: ask the workers): what workers tell of the flow of their buckets
--          starts, ask, bucket: what they tell of the starts of one
--          answer, worker, flow (empty: none), then bucket and starts, …: what a worker tells
-- returns  history: now (us), 1 when there is such a class, its points;  flow, starts: now (us), then worker and what it tells, …;
--          else us until the next slot; claim: slot (0: another one has it), that time, now (us), 1 when the rings of a day are to get one
-- cost     O(1); append 3 calls per class and ring, flow and starts 1 per worker
local SLOT, DAY_SLOT, LASTS, ANSWER_LASTS = 5000000, 300000000, 15000, 3000 -- us, us, ms, ms
-- Points and ms that are kept: those of 15 minutes and of a day, and one more, from which the first one is counted.
local RECENT, DAY = { 'recent', 181, 1200000 }, { 'day', 289, 90000000 }
local op = ARGV[1]
if op == 'history' then
  local v = call('HMGET', P .. ':class:' .. ARGV[3], 'capacity', 'removed')
  return { int(now), v[1] and not v[2] and 1 or 0, call('LRANGE', P .. ':' .. ARGV[2] .. ':' .. ARGV[3], 0, -1) }
end
if op == 'flow' or op == 'starts' then
  if ARGV[2] == '1' then call('PUBLISH', P .. ':ask', ARGV[3] or '') end
  local reply = { int(now) }
  for _, worker in ipairs(call('HKEYS', P .. ':workers')) do
    local told
    if op == 'flow' then
      told = call('GET', P .. ':flow:' .. worker)
    else
      told = call('HGET', P .. ':starts:' .. worker, ARGV[3])
    end
    if told then
      reply[#reply + 1] = worker
      reply[#reply + 1] = told
    end
  end
  return reply
end
call('DEL', P .. ':-') -- what follows takes the place of older points, also in a store that is full

local slot = floor(now / SLOT)
local left = (slot + 1) * SLOT - now

local function keep(ring, cname, point)
  local key = P .. ':' .. ring[1] .. ':' .. cname
  call('RPUSH', key, point)
  call('LTRIM', key, -ring[2], -1)
  call('PEXPIRE', key, ring[3])
end

if op == 'report' then
  local key = P .. ':worker:' .. ARGV[2]
  call('HSET', key, 'at', int(now), unpack(ARGV, 4))
  call('PEXPIRE', key, LASTS)
  if ARGV[3] ~= '' then
    local timings = P .. ':timings:' .. int(slot)
    call('HSET', timings, ARGV[2], ARGV[3])
    call('PEXPIRE', timings, LASTS)
  end
  return left
end
if op == 'answer' then
  if ARGV[3] ~= '' then call('SET', P .. ':flow:' .. ARGV[2], ARGV[3], 'PX', ANSWER_LASTS) end
  local key = P .. ':starts:' .. ARGV[2]
  for i = 4, #ARGV, 2 do call('HSET', key, ARGV[i], ARGV[i + 1]) end
  if ARGV[4] then call('PEXPIRE', key, ANSWER_LASTS) end
  return left
end
if op == 'claim' then
  local last, day = match(call('GET', P .. ':recorded') or '', '^(%d+) (%d+)$')
  if last and slot <= last + 0 and slot > last - 12 then return { 0, left, int(now), 0 } end -- the clock may have been set back
  local due = not day or floor(now / DAY_SLOT) > day + 0
  call('SET', P .. ':recorded', int(slot) .. ' ' .. int(floor(now / DAY_SLOT)), 'PX', DAY[3])
  return { slot, left, int(now), due and 1 or 0 }
end
for i = 3, #ARGV, 3 do
  keep(RECENT, ARGV[i], ARGV[i + 1])
  if ARGV[2] == '1' then keep(DAY, ARGV[i], ARGV[i + 2]) end
end
return left

-- prelude: what all scripts share. The names of a shard's keys, time, classes and the books. Nothing here runs by itself but the three lines that follow.
--
-- KEYS[1] is the shard's hash tag, such as {spout:2}. Every key a script touches begins with it, so that a script stays
-- in one slot of a cluster.
--
-- Times are microseconds. Around 1.8e15 a double resolves a quarter of one, so an interval such as 1 s / 7 would drift if
-- slots were kept as absolute numbers: inside a script, times are offsets from now, which are small and keep decimals,
-- and a stored slot is a whole number and six decimals, apart.
local P = KEYS[1]
local JOB = P .. ':job:'
local call = redis.call
-- Looked up once: they are called several times for each job.
local max, min, ceil, floor = math.max, math.min, math.ceil, math.floor
local format, match, sub = string.format, string.match, string.sub
local now = now_us()
local BATCH = 100 -- no loop and no batch is longer than this, so that no call holds Redis for long

-- int formats a whole number with all its digits. tostring and .. keep only 14 of them and would cut a timestamp. As an
-- argument of its own a number keeps 17, and in a reply all, so there it needs no help; but this is the faster way.
local function int(x)
  return format('%d', x)
end

-- score reads a sorted set's score. Not every Lua takes "inf" for a number, nor, in tonumber, 1e+08.
local function score(s)
  if s == 'inf' or s == '+inf' then return math.huge end
  return s + 0
end

local function class_of(name)
  return match(name, '^([^/]+)/')
end

-- ref_of strips what a delayed job's line member carries in front of its ref (see member_of).
local function ref_of(member)
  return match(member, '[^:]+$')
end

-- member_of names a delayed job in later, line and expiry: its admission number goes in front, so that jobs that join at
-- the same moment leave in order of admission, and the + before that, so that they leave before one that is admitted at
-- that moment: a job that never waited aside is its ref alone, which begins with a digit.
local function member_of(number, ref)
  return format('+%016d:', number) .. ref
end

---------------------------------------------------------------------------------------------------------- classes

local classes = {}

-- class returns the settings of a class, or false if there is none. Read once per call.
local function class(name)
  local c = classes[name]
  if c ~= nil then return c end
  local v = call('HMGET', P .. ':class:' .. name, 'capacity', 'limit', 'period', 'catch_up', 'max_wait',
    'max_jobs', 'dedup', 'max_payload', 'paused', 'version', 'timeout', 'http',
    'removed', 'largest', 'draining', 'overflow', 'retention', 'order', 'max_in_flight', 'tracked', 'max_crashes', 'ack',
    'pace', 'made')
  if v[1] then
    local strict = v[23] == 'strict'
    c = {
      name = name,
      capacity = tonumber(v[1]),
      T = tonumber(v[3]) / tonumber(v[2]),
      catch_up = strict and 0 or tonumber(v[4]),
      max_wait = tonumber(v[5]),
      max_jobs = tonumber(v[6]),
      dedup = tonumber(v[7]),
      max_payload = tonumber(v[8]),
      paused = v[9],
      version = v[10],
      timeout = v[11],
      http = v[12],
      removed = v[13],
      largest = tonumber(v[14] or 0), -- a bound on the payloads admitted so far
      draining = v[15],
      drop_oldest = v[16] == 'drop-oldest',
      retention = tonumber(v[17] or 0),
      order = v[18] or 'park',
      bound = v[18] == 'hold' and 1 or tonumber(v[19] or 0), -- of what one bucket has out, 0 none
      tracked = v[20], -- the class has, or had, such a bound: what its buckets have out is kept by bucket, too
      max_crashes = tonumber(v[21] or 3),
      ack = v[22] or 'memory',
      strict = strict,
      made = tonumber(v[24] or 0), -- the epoch that it was made in
    }
  else
    c = false
  end
  classes[name] = c
  return c
end

---------------------------------------------------------------------------------------------------------- the books

local books = {} -- class -> field -> what this call adds

-- count adds n to a total of a class. Written once, at the end, in the same script as the jobs that moved.
local function count(cname, field, n)
  local b = books[cname]
  if not b then
    b = {}
    books[cname] = b
  end
  b[field] = (b[field] or 0) + n
end

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

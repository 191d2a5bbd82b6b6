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

-- lazy returns what define returns, which is defined by the first who asks. A function costs each call that defines it, also
-- where it is never called: a fifth of a microsecond, and the shared ones are many. So what few calls need is lazy.
local function lazy(define)
  local defined
  return function()
    if not defined then defined = define() end
    return defined
  end
end

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

-- What a worker has out: stamp, number of the call, bucket. More than 64 bytes, so that Redis keeps the entries in a table
-- and does not look through a list of them.
local OUT_ENTRY, OUT_FORMAT = '^(%d+) (%d+) +(.*)$', '%d %-50d %s'

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

-- particular reads the settings that most classes leave as they are. Whoever changes one of them must set special.
local function particular(c)
  local v = call('HMGET', P .. ':class:' .. c.name, 'overflow', 'retention', 'order', 'max_in_flight', 'tracked',
    'max_crashes', 'ack', 'pace', 'adapt', 'hold')
  c.drop_oldest = v[1] == 'drop-oldest'
  c.retention = (v[2] or 0) + 0
  c.order = v[3] or 'park'
  c.bound = v[3] == 'hold' and 1 or (v[4] or 0) + 0 -- of what one bucket has out, 0 none
  c.tracked = v[5] -- the class has, or had, such a bound: what its buckets have out is kept by bucket, too
  c.max_crashes = (v[6] or 3) + 0
  c.ack = v[7] or 'memory'
  c.strict = v[8] == 'strict'
  if c.strict then c.catch_up = 0 end
  local slowest, fastest = match(v[9] or '', '^(%S+) (%S+)')
  if slowest then c.slowest, c.fastest = slowest + 0, fastest + 0 end -- shares of the rate that its buckets adapt between
  c.hold = v[10] and v[10] - now or nil
  return c
end

-- class returns the settings of a class, or false if there is none. Read once per call.
local function class(name)
  local c = classes[name]
  if c ~= nil then return c end
  local v = call('HMGET', P .. ':class:' .. name, 'capacity', 'limit', 'period', 'catch_up', 'max_wait',
    'max_jobs', 'dedup', 'max_payload', 'paused', 'version', 'timeout', 'http', 'removed', 'largest', 'draining', 'special')
  if v[1] then
    c = {
      name = name,
      capacity = v[1] + 0,
      T = v[3] / v[2],
      catch_up = v[4] + 0,
      max_wait = v[5] + 0,
      max_jobs = v[6] + 0,
      dedup = v[7] + 0,
      max_payload = v[8] + 0,
      paused = v[9],
      version = v[10],
      timeout = v[11],
      http = v[12],
      removed = v[13],
      largest = (v[14] or 0) + 0, -- a bound on the payloads admitted so far
      draining = v[15],
      retention = 0, order = 'park', bound = 0, max_crashes = 3, ack = 'memory', -- see particular
    }
    if v[16] ~= '0' then particular(c) end -- a class that an earlier build stored does not say
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

local function write_books()
  for cname, fields in pairs(books) do
    for field, n in pairs(fields) do call('HINCRBY', P .. ':stats:' .. cname, field, n) end
  end
end

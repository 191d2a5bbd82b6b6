-- audit: both sides of the books (law 5) of one class. A class of few buckets is counted at one moment; of a larger one
-- the caller counts part after part.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     class, then names of buckets; none: all that it has, if they are not too many
-- returns  whether all were counted (1), buckets that there are, jobs in line, later, out and dead, those that buckets with
--          a bound count as out (-1: not counted), then the books: field, value, …
-- cost     O(buckets + out), at most 500 buckets and 1000 jobs out
local cname = ARGV[1]
local MOST, MOST_OUT = 500, 1000
local names = { unpack(ARGV, 2) }
local part = #names > 0
local total = call('ZCARD', P .. ':due:' .. cname)
local all = part or total <= MOST
local line, later, out, flight = 0, 0, 0, -1
local c = class(cname)
local with_out = {}

local function count_out()
  local workers, n = call('HKEYS', P .. ':workers'), 0
  for _, worker in ipairs(workers) do n = n + call('HLEN', P .. ':out:' .. worker) end
  if n > MOST_OUT then
    all = false
    return
  end
  for _, worker in ipairs(workers) do
    for _, entry in ipairs(call('HVALS', P .. ':out:' .. worker)) do
      local _, _, name = match(entry, OUT_ENTRY)
      if class_of(name) == cname then
        out = out + 1
        with_out[name] = true
      end
    end
  end
end

-- length is that of a sorted set; what is broken has none.
local function length(key)
  local n = redis.pcall('ZCARD', key)
  return type(n) == 'number' and n or 0
end

if not part then
  if all then names = call('ZRANGE', P .. ':due:' .. cname, 0, -1) end
  for _, name in ipairs(call('HKEYS', P .. ':sick')) do
    if class_of(name) == cname and not call('ZSCORE', P .. ':due:' .. cname, name) then names[#names + 1] = name end
  end
  count_out()
end
for _, name in ipairs(names) do
  line = line + length(P .. ':line:' .. name)
  later = later + length(P .. ':later:' .. name)
  with_out[name] = true
end
if all and not part and c and c.tracked then
  flight = 0
  for name in pairs(with_out) do flight = flight + call('SCARD', P .. ':flight:' .. name) end
end
local reply = { all and 1 or 0, total, line, later, out, call('ZCARD', P .. ':dead:' .. cname), flight }
for _, v in ipairs(call('HGETALL', P .. ':stats:' .. cname)) do reply[#reply + 1] = v end
return reply

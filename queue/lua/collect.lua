-- collect: what metrics tell of some classes in one shard. Changes nothing.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     1 for the settings too, or 0; then class and depth, …, at most 100 of them. Depth 0: its books alone; 1: the ends of
--          its index, too; 2: and the heads of lines at either end of it
-- returns  per class: capacity, limit, period (us), 1 when paused (all 0 without settings, or when there is no such class),
--          buckets (that have jobs or remember something), of these closed until told otherwise or until a job of theirs is
--          final, how long the head that is due longest has been (us), highest level and longest line of two buckets, the
--          time until the one of them opens that is held (us), the time until the class does (us), the books: field, value, …,
--          how long the job that waits longest in the lines that were looked at has waited (us), and 1 when the class is draining
-- cost     O(classes): per class 1 call; 1 more for the ends, and some 10 while it has buckets; and 1 per head
local HEADS, FEWER = 25, 10 -- lines that are looked at from either end: all of a small index, fewer of a large one
local LOOK = { 1, BATCH } -- overdue buckets that are looked at for one with jobs
local SOON = 1000000 -- us
local NONE = { '0', '0', '0', false, false, false }

local function length(kind, name)
  local n = redis.pcall('ZCARD', P .. kind .. name) -- what is broken has none
  return type(n) == 'number' and n or 0
end

-- look notes the level of a bucket and tells whether it has jobs.
local function look(found, name)
  local line = length(':line:', name)
  local level = line + length(':later:', name)
  found.level, found.line = max(found.level, level), max(found.line, line)
  return level > 0
end

-- look_at_first looks at the bucket that is due first. Emptied ones may stand before it, until a worker sees to them.
local function look_at_first(found, index)
  for _, most in ipairs(LOOK) do
    local v = call('ZRANGE', index, 0, most - 1, 'WITHSCORES')
    for i = 1, #v, 2 do
      local at = score(v[i + 1])
      if look(found, v[i]) then
        found.late = max(0, now - at)
        return v[i]
      end
      if at > now then return end
    end
  end
end

-- look_at_last looks at the bucket that opens last, unless that is soon: of several that are held, it is the one that is for
-- longest. Those that are closed stand behind it.
local function look_at_last(found, index, first)
  local v = call('ZREVRANGE', index, 0, 0, 'WITHSCORES')
  if score(v[2]) == math.huge then
    found.closed = call('ZCOUNT', index, '+inf', '+inf')
    v = call('ZREVRANGEBYSCORE', index, '(+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
  end
  local name = v[1]
  if not name or score(v[2]) < now + SOON then return end
  if name ~= first then look(found, name) end
  local closed = redis.pcall('HMGET', P .. ':bucket:' .. name, 'hold', 'backoff')
  local hold, backoff = tonumber(closed[1] or 0) or 0, tonumber(match(closed[2] or '0', '^%d+'))
  found.hold = max(found.hold, max(hold, backoff) - now)
end

-- oldest is the longest wait of the heads of the first and the last lines of an index. Heads are the oldest of their lines, as
-- members are numbered by the time they joined.
local function oldest(index, total)
  local most = total > 2 * HEADS and FEWER or HEADS
  local names = call('ZRANGE', index, 0, most - 1)
  if total > most then
    for _, name in ipairs(call('ZRANGE', index, max(most, total - most), -1)) do names[#names + 1] = name end
  end
  local joined = now
  for _, name in ipairs(names) do
    local head = redis.pcall('ZRANGE', P .. ':line:' .. name, 0, 0, 'WITHSCORES')
    if head[2] then joined = min(joined, score(head[2])) end
  end
  return now - joined
end

local reply = {}
for i = 2, #ARGV, 2 do
  local name, depth = ARGV[i], ARGV[i + 1] + 0
  local index = P .. ':due:' .. name
  local c = ARGV[1] == '1' and call('HMGET', P .. ':class:' .. name, 'capacity', 'limit', 'period', 'paused', 'hold', 'draining') or NONE
  local found = { level = 0, line = 0, hold = 0, late = 0, closed = 0 }
  local total = depth > 0 and call('ZCARD', index) or 0
  if total > 0 then look_at_last(found, index, look_at_first(found, index)) end
  reply[i / 2] = { c[1] or '0', c[2] or '0', c[3] or '0', c[4] and 1 or 0, total, found.closed, found.late, found.level, found.line,
    found.hold, c[5] and max(0, c[5] - now) or 0, call('HGETALL', P .. ':stats:' .. name),
    total > 0 and depth > 1 and oldest(index, total) or 0, c[6] and 1 or 0 }
end
return reply

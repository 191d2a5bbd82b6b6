-- levels: how many jobs wait in lines, for those who look again and again. Changes nothing.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     lines, names of buckets, at most 100
--          walk, cursor, about how many, classes: goes through their indexes from there, the first one's cursor or 0
-- returns  lines: jobs in line, …
--          walk: now (us), classes that came to their end, the cursor of the next; name, score in the index, jobs in line and,
--          where there are none, later (else -1), …; some 100 of the buckets that were set aside as sick, which stand in no index
-- cost     O(buckets): 1 call per bucket, 2 for one with nothing in line; walk 1 per class and 2 more
local P = KEYS[1]

local function length(kind, name)
  local n = redis.pcall('ZCARD', P .. kind .. name) -- what is broken has none
  return type(n) == 'number' and n or 0
end

if ARGV[1] == 'lines' then
  local lines = {}
  for i = 2, #ARGV do lines[i - 1] = length(':line:', ARGV[i]) end
  return lines
end

local cursor, most = ARGV[2], ARGV[3] + 0
local ended, list, n = 0, {}, 0
for i = 4, #ARGV do
  local page = redis.call('ZSCAN', P .. ':due:' .. ARGV[i], cursor, 'COUNT', most - n / 4)
  local found = page[2]
  for j = 1, #found, 2 do
    local line = length(':line:', found[j])
    list[n + 1], list[n + 2], list[n + 3], list[n + 4] = found[j], found[j + 1], line, line == 0 and length(':later:', found[j]) or -1
    n = n + 4
  end
  cursor = page[1]
  if cursor ~= '0' then break end
  ended = ended + 1
  if n / 4 >= most then break end
end
local sick = {}
for i, text in ipairs(redis.call('HSCAN', P .. ':sick', 0, 'COUNT', 100)[2]) do
  if i % 2 == 1 then sick[#sick + 1] = text end
end
return { string.format('%d', now_us()), ended, cursor, list, sick }

-- done: how settle begins. It finds out which of the departures are still out. Where all of them are of jobs that are done
-- and leave nothing behind, which is most calls, it settles them before what the others need is defined.
local FIELDS = 5 -- per departure
local WORKER = ARGV[1]
local OUT = P .. ':out:' .. WORKER
call('DEL', P .. ':-') -- a write that a full Redis never refuses opens the script for the others

local plain = {} -- class -> whether its done jobs leave nothing behind, and its buckets do not count what is out

local function is_plain(cname)
  local known = plain[cname]
  if known == nil then
    local v = call('HMGET', P .. ':class:' .. cname, 'dedup', 'retention', 'tracked')
    known = (v[1] or 0) + 0 == 0 and (v[2] or 0) + 0 == 0 and not v[3]
    plain[cname] = known
  end
  return known
end

local refs, results = {}, {}
for i = 2, #ARGV, FIELDS do refs[#refs + 1] = ARGV[i] end
local outs = call('HMGET', OUT, unpack(refs))
local taken, gone, seen = {}, {}, {} -- refs; the jobs that leave nothing; ref -> bucket
local bucket_name, cname -- of the last one; neighbours often share them
for n, ref in ipairs(refs) do
  local at = FIELDS * n - 3
  local had, _, name = match(outs[n] or '', OUT_ENTRY)
  results[n] = (had == ARGV[at + 1] and not seen[ref]) and 1 or 0
  if results[n] == 1 then
    seen[ref] = name
    taken[#taken + 1] = ref
    if name ~= bucket_name then bucket_name, cname = name, class_of(name) end
    if ARGV[at + 2] == 'done' and is_plain(cname) then
      gone[#gone + 1] = JOB .. ref
      count(cname, 'done', 1)
    end
  end
end
if #gone == #refs and call('EXISTS', P .. ':awaits') == 0 then
  call('HDEL', OUT, unpack(taken))
  call('DEL', unpack(gone))
  write_books()
  return results
end
books = {}

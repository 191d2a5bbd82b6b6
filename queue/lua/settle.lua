-- settle: what became of departures, up to 64 at a time. Fenced: only a departure that is still out, with the same
-- stamp, is settled; anything a late or dead worker says about another is refused.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     worker, then five per departure: ref, stamp, verdict (done | dead | back), error text, stale (1 when the
--          attempt was given back because the departure was no longer good)
-- returns  per departure: 1 settled, 0 refused
-- cost     O(log n) per departure, 3 calls in all and 1 to 5 per departure that is not simply done
local OUT = P .. ':out:' .. ARGV[1]
call('DEL', P .. ':-') -- a write that a full Redis never refuses opens the script for the others

local function bury(cname, ref, text)
  local job = JOB .. ref
  call('HINCRBY', job, 'attempts', 1)
  call('HSET', job, 'state', 'dead', 'error', text, 'ended', int(now))
  call('ZADD', P .. ':dead:' .. cname, int(now), ref)
end

local gone = {} -- jobs that leave nothing behind
local windows = {} -- class -> its dedup window

local function dedup(cname)
  local window = windows[cname]
  if not window then
    window = (call('HGET', P .. ':class:' .. cname, 'dedup') or 0) + 0
    windows[cname] = window
  end
  return window
end

local bucket_name, cname -- of the last one settled; neighbours often share them

local function settle(i, name)
  local ref, verdict = ARGV[i], ARGV[i + 2]
  if name ~= bucket_name then bucket_name, cname = name, class_of(name) end
  if verdict == 'back' then
    local b = give_back(name, ref)
    if b and ARGV[i + 4] == '1' then
      set_aside(b)
      call('HINCRBY', JOB .. ref, 'backs', 1)
      count(cname, 'stale', 1)
    end
    return
  end
  if verdict == 'dead' then
    bury(cname, ref, ARGV[i + 3])
  elseif dedup(cname) > 0 then
    mark(class(cname), ref)
  else
    gone[#gone + 1] = JOB .. ref
  end
  count(cname, verdict, 1)
end

local refs = {}
for i = 2, #ARGV, 5 do refs[#refs + 1] = ARGV[i] end
local outs = call('HMGET', OUT, unpack(refs))
local results, taken, seen = {}, {}, {}
for n, ref in ipairs(refs) do
  local had, _, name = match(outs[n] or '', OUT_ENTRY)
  results[n] = (had == ARGV[5 * n - 2] and not seen[ref]) and 1 or 0
  if results[n] == 1 then
    seen[ref] = name
    taken[#taken + 1] = ref
  end
end
if #taken > 0 then call('HDEL', OUT, unpack(taken)) end
for n, ref in ipairs(refs) do
  if results[n] == 1 then settle(5 * n - 3, seen[ref]) end
end
if #gone > 0 then call('DEL', unpack(gone)) end
finish()
return results

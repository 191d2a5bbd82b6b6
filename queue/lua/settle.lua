-- settle: what became of departures, up to 64 at a time. Fenced: only a departure that is still out, with the same
-- stamp, is settled; anything a late or dead worker says about another is refused and counted.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     worker, then five per departure: ref, stamp, verdict (done | dead | back), error text, stale (1 when the
--          attempt was given back because the departure was no longer good)
-- returns  per departure: 1 settled, 0 refused
-- cost     O(log n) per departure, 3 to 6 calls
local OUT = P .. ':out:' .. ARGV[1]
redis.call('DEL', P .. ':-') -- a write that a full Redis never refuses opens the script for the others

local function bury(cname, ref, text)
  local job = P .. ':job:' .. ref
  redis.call('HSET', job, 'state', 'dead', 'error', text, 'ended', int(now), 'attempts',
    int((tonumber(redis.call('HGET', job, 'attempts') or 0)) + 1))
  redis.call('ZADD', P .. ':dead:' .. cname, int(now), ref)
end

local function settle(i)
  local ref, stamp, verdict = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local out = redis.call('HGET', OUT, ref)
  local had, _, name = string.match(out or '', '^(%d+) (%d+) (.*)$')
  if had ~= stamp then return 0 end
  redis.call('HDEL', OUT, ref)
  local cname = class_of(name)
  if verdict == 'back' then
    give_back(name, ref)
    if ARGV[i + 4] == '1' then
      redis.call('HINCRBY', P .. ':job:' .. ref, 'backs', 1)
      count(cname, 'stale', 1)
    end
    return 1
  end
  if verdict == 'dead' then
    bury(cname, ref, ARGV[i + 3])
  else
    mark(class(cname) or { dedup = 0 }, ref)
  end
  count(cname, verdict, 1)
  return 1
end

local results = {}
for i = 2, #ARGV, 5 do results[#results + 1] = settle(i) end
finish()
return results

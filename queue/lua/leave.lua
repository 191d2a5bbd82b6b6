-- leave: a worker goes; what it still has out returns to its buckets, in order. A departure it settled before is not
-- touched, and one that it settles afterwards is refused.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     worker
-- returns  returned, left (call again until 0)
-- cost     O(log n) per job, at most 100 per call
local OUT = P .. ':out:' .. ARGV[1]
call('DEL', P .. ':-') -- a write that a full Redis never refuses opens the script for the others

local all = call('HGETALL', OUT)
local returned = 0
for i = 1, min(#all, 2 * BATCH), 2 do
  call('HDEL', OUT, all[i])
  local _, _, name = match(all[i + 1], OUT_ENTRY)
  give_back(name, all[i])
  returned = returned + 1
end
local left = #all / 2 - returned
if left == 0 then call('HDEL', P .. ':workers', ARGV[1]) end
finish()
return { returned, left }

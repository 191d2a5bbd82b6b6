-- start: permission to start an attempt of a class with strict pace, when it comes to starting. It keeps the interval
-- between the starts themselves.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     worker, ref, stamp, the longest wait (us) that is any use
-- returns  wait (us) until the attempt may start | -1: it may not, it has to go back | -2: the departure is no longer out
-- cost     O(log n)
local worker, ref, stamp, longest = ARGV[1], ARGV[2], ARGV[3], ARGV[4] + 0
call('DEL', P .. ':-') -- a write that a full Redis never refuses opens the script for the others
local had, _, name = match(call('HGET', P .. ':out:' .. worker, ref) or '', OUT_ENTRY)
if had ~= stamp then return { -2 } end
local b = bucket(name)
local c = class(b.class)
local wait = b.started and max(0, min(b.started, longest) + b.T) or 0 -- further ahead only when the clock was set back
if wait > longest then return { -1 } end
set_aside(b)
b.started = wait
set(b, 'started', slot_text(wait))
finish()
return { ceil(wait) }

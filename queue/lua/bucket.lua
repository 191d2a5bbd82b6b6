-- bucket: an operator's hand on one bucket.
--
-- KEYS[1]  the shard's hash tag
-- ARGV     operation (pause | drain | resume, which ends both | hold | unhold | purge | touch), until when (hold; us), then
--          bucket names class/key, at most 100; purge takes one
-- returns  unknown_class: the class of the first bucket does not exist
--          ok, jobs purged, jobs left to purge (call again until 0)
-- cost     O(log n) per bucket or purged job
local op, time = ARGV[1], ARGV[2]
call('DEL', P .. ':-')
if not class(class_of(ARGV[3])) then return { 'unknown_class' } end

local clear = seldom().clear
local purged, left = 0, 0

local function purge(b, c)
  for _, place in ipairs({ 'later', 'line' }) do
    local members = purged < BATCH and call('ZRANGE', P .. ':' .. place .. ':' .. b.name, 0, BATCH - 1 - purged) or {}
    for _, member in ipairs(members) do
      call('ZREM', P .. ':expiry:' .. b.name, member)
      seldom().drop_waiting(b, c, member, 'purged')
      purged = purged + 1
    end
  end
  left = b.line + b.later
end

-- touch goes on where one of many buckets is broken; who works on one bucket is told.
local function touch(name)
  local ok, b = pcall(bucket, name)
  if ok then b.changed = true else seldom().set_aside_sick(name, b) end
end

local function operate(name)
  local b = bucket(name)
  b.changed = true
  call('HDEL', P .. ':sick', b.name)
  if op == 'pause' then
    b.paused = '1'
    set(b, 'paused', '1')
  elseif op == 'resume' then
    b.paused, b.draining = false, false
    clear(b, 'paused')
    clear(b, 'draining')
  elseif op == 'drain' then
    set_aside(b)
    b.draining = '1'
    set(b, 'draining', '1')
  elseif op == 'hold' then
    b.hold = time - now
    set(b, 'hold', time)
    set(b, 'hold_reason', 'an operator')
  elseif op == 'unhold' then
    b.hold, b.backoff = nil, nil
    clear(b, 'hold')
    clear(b, 'hold_reason')
    clear(b, 'backoff')
  elseif op == 'purge' then
    purge(b, class(b.class))
  end
end

for i = 3, #ARGV do
  if op == 'touch' then touch(ARGV[i]) else operate(ARGV[i]) end
end
finish()
return { 'ok', purged, left }

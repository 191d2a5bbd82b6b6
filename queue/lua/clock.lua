-- clock: the time every script uses. Redis's own, in whole microseconds. Tests prepend another definition, which
-- reads a key, so that expected answers can be checked at exact instants.
local function now_us()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

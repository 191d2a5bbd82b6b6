-- clock: the time every script uses, Redis's own, in whole microseconds, and how long a key lives. Tests prepend other
-- definitions, which read the time from a key, so that expected answers can be checked at exact instants.
local function clock_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- ttl is the life of a key in milliseconds for us microseconds: rounded up, and never 0, which Redis refuses.
local function ttl(us)
  return us > 1000 and math.ceil(us / 1000) or 1
end

-- one: one call to one meter.
--
-- KEYS     the meter
-- ARGV     op, least, most, arg and the three numbers of the law
-- returns  what the law answers, as six whole numbers
-- cost     that of the law
local function one(law)
  return { law(KEYS[1], ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0, ARGV[7] + 0) }
end

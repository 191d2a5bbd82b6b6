-- judged: one call to one meter whose limit has a penalty.
--
-- KEYS     the meter, its penance
-- ARGV     op, least, most, arg, the three numbers of the law and of the penalty
-- returns  what the law and the penalty answer, as six whole numbers
-- cost     that of both
local function judged(law)
  return { judge(law, KEYS[1], KEYS[2], ARGV[8] + 0, ARGV[9] + 0, ARGV[10] + 0,
    ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0, ARGV[7] + 0) }
end

-- all: several calls at once. They take something only when none that must conform is refused; of the refused ones,
-- penalties are counted.
--
-- KEYS     per call: the meter, its penance
-- ARGV     per call: law, must (1 or 0), cost, the three numbers of the law and of the penalty (0 none)
-- returns  per call what its law answers, six whole numbers each, in one list
-- cost     twice that of the laws
local FIELDS = 9
local laws = { bucket = bucket, fixed = fixed, counter = counter, log = log }

local function ask(i, op)
  local first = (i - 1) * FIELDS
  local law, key, n = laws[ARGV[first + 1]], KEYS[2 * i - 1], {}
  for j = 3, FIELDS do n[j] = ARGV[first + j] + 0 end
  if n[7] > 0 then
    return { judge(law, key, KEYS[2 * i], n[7], n[8], n[9], op, n[3], n[3], 0, n[4], n[5], n[6]) }
  end
  return { law(key, op, n[3], n[3], 0, n[4], n[5], n[6]) }
end

local answers, together = {}, true
for i = 1, #KEYS / 2 do
  answers[i] = ask(i, PEEK)
  if answers[i][1] == 0 and ARGV[(i - 1) * FIELDS + 2] == '1' then together = false end
end
local reply = {}
for i, a in ipairs(answers) do
  if together or a[1] == 0 then a = ask(i, TAKE) end
  for j = 1, 6 do reply[#reply + 1] = a[j] end
end
return reply

-- prelude: what all laws share. Nothing here runs by itself but the lines that follow.
--
-- Every number is a whole one below 2^53, where doubles are exact. tostring and .. would cut large ones: they are written
-- with '%d'. A call is op, least, most, arg and the three numbers of its law; a law answers
--   verdict (1 conforms, 0 refused, -1 out of range), remaining, retry (-1 never), reset, taken, at
-- exactly as its Go twin does, which is where the reasons are.
local call = redis.call
local max, min, ceil, floor = math.max, math.min, math.ceil, math.floor
local format, match = string.format, string.match
local PEEK, TAKE, FORCE, REFUND = 0, 1, 2, 3
local EXACT = 9007199254740991 -- 2^53 - 1
local clock = clock_us()
local now = clock -- a penalty may move it forward, never back

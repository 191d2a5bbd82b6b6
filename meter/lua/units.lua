-- units decides over whole units for the windows, of which some are used and there is room for more: verdict, retry (-1 or
-- 0), by how many the used ones change. forced is the most a settlement may drive them to.
local function units(op, least, most, used, room, limit, forced)
  if op == FORCE then
    if least > forced - used then return -1, 0, 0 end
    return 1, 0, least
  end
  if op == REFUND then return 1, 0, -min(least, used) end
  if least > limit then return 0, -1, 0 end
  if least > max(0, room) then return 0, 0, 0 end
  if op == PEEK or least == 0 then return 1, 0, 0 end
  return 1, 0, min(most, room)
end

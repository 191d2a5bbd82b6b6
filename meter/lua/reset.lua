-- reset: makes meters as if they had never been used.
--
-- KEYS     the meter, its penance
-- returns  how many of them there were
-- cost     O(1), of a log O(n)
return redis.call('DEL', unpack(KEYS))

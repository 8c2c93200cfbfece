-- Keeps the lease, or gets it: a set that is newly got is empty, since what is in it
-- belongs to connections of another time. Who finds it taken leaves word of that, for
-- as long as a lease lasts, so that the holder knows that the name was given twice.
-- ARGV: token, how long in ms, 1 to get it although another has it.
-- Gives kept; shared, which is kept with a rival; got; taken; or emptied, when an heir
-- has it.
own()
local holder = redis.call('GET', lease)
if holder == ARGV[1] then
  redis.call('PEXPIRE', lease, ARGV[2])
  if redis.call('EXISTS', rival) == 1 then return 'shared' end
  return 'kept'
end
if holder and ARGV[3] ~= '1' then
  if string.sub(holder, 1, 5) == 'heir ' then return 'emptied' end
  redis.call('SET', rival, ARGV[1], 'PX', ARGV[2])
  return 'taken'
end
redis.call('UNLINK', set, flows, rival)
redis.call('SET', lease, ARGV[1], 'PX', ARGV[2])
return 'got'

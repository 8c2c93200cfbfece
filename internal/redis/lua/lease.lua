-- Keeps the lease, or gets it: a set that is newly got is empty, since what is in it
-- belongs to connections of another time.
-- ARGV: token, how long in ms, 1 to get it although another has it.
-- Gives kept, got, or taken.
local holder = redis.call('GET', lease)
if holder == ARGV[1] then
  redis.call('PEXPIRE', lease, ARGV[2])
  return 'kept'
end
if holder and ARGV[3] ~= '1' then return 'taken' end
redis.call('UNLINK', set, flows)
redis.call('SET', lease, ARGV[1], 'PX', ARGV[2])
return 'got'

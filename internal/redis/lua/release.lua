-- Gives the lease back, and removes what is left of the set. ARGV: token.
if mine(ARGV[1]) then redis.call('UNLINK', set, flows, lease) end
if redis.call('GET', rival) == ARGV[1] then redis.call('UNLINK', rival) end
return 'OK'

-- Takes flows out of a set whose lease has ended, under a claim that is a lease too:
-- of two that try, one gets it, and a gateway that comes back finds its set gone.
-- ARGV: the claim, how long it lasts in ms, how many flows at most.
-- Gives whether the set is now empty and gone, 1 or 0, and for each flow: member,
-- seq, attempts, ladder. False when another has the set.
own()
local holder = redis.call('GET', lease)
if holder and holder ~= ARGV[1] then return false end
redis.call('SET', lease, ARGV[1], 'PX', ARGV[2])
local taken = { '0' }
for _, member in ipairs(redis.call('ZRANGE', set, 0, ARGV[3] - 1)) do
  local seq, attempts, ladder = parse(redis.call('HGET', flows, member))
  if seq then
    local n = #taken
    taken[n + 1], taken[n + 2], taken[n + 3], taken[n + 4] = member, whole(seq), whole(attempts), ladder
  end
  redis.call('ZREM', set, member)
  redis.call('HDEL', flows, member)
end
if redis.call('EXISTS', set) == 0 then
  redis.call('UNLINK', flows, lease)
  taken[1] = '1'
end
return taken

-- Takes flows whose time has come: each gets one attempt more and its next time, in
-- place, or is removed after its last attempt. What has no state that can be read is
-- removed, and not told.
-- ARGV: token, the time or 0, how many at most, the number of attempts.
-- Gives for each: member, seq, attempts, ladder.
if not mine(ARGV[1]) then return lost end
local t, most = now(ARGV[2]), tonumber(ARGV[4])
local due = {}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', set, '-inf', t, 'LIMIT', 0, ARGV[3])) do
  local seq, attempts, ladder = parse(redis.call('HGET', flows, member))
  if seq then
    attempts = attempts + 1
    due[#due + 1], due[#due + 2], due[#due + 3], due[#due + 4] = member, whole(seq), whole(attempts), ladder
  end
  if seq and attempts <= most then
    redis.call('HSET', flows, member, state(seq, attempts, ladder))
    redis.call('ZADD', set, t + rung(ladder, attempts), member)
  else
    redis.call('ZREM', set, member)
    redis.call('HDEL', flows, member)
  end
end
return due

-- Changes flows, each in one of these ways, all in one step:
--   register  a flow that is there keeps its attempts and its time, and only raises seq
--   moved     attempts start anew, seq is raised
--   anew      as if the flow had been settled before
--   settle    the flow is removed; one that is not there is fine
-- ARGV: token, the time or 0, and for each flow: way, member, seq, ladder.
if not mine(ARGV[1]) then return lost end
local t = now(ARGV[2])
for i = 3, #ARGV, 4 do
  local way, member, seq, ladder = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3]
  if way == 'settle' then
    redis.call('ZREM', set, member)
    redis.call('HDEL', flows, member)
  else
    local old, attempts, climbing = nil, nil, nil
    if way ~= 'anew' then
      old, attempts, climbing = parse(redis.call('HGET', flows, member))
    end
    if old and old > seq then seq = old end
    if old and way == 'register' then
      redis.call('HSET', flows, member, state(seq, attempts, climbing))
    else
      redis.call('HSET', flows, member, state(seq, 1, ladder))
      redis.call('ZADD', set, t + rung(ladder, 1), member)
    end
  end
end
return 'OK'

-- Removes a gateway from those that live, unless it has told so lately.
-- KEYS[1]  ack:gateways
-- ARGV: gateway, after how long silence in ms; 0: in any case.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local last = redis.call('ZSCORE', KEYS[1], ARGV[1])
if last and (ARGV[2] == '0' or tonumber(last) <= now - ARGV[2]) then redis.call('ZREM', KEYS[1], ARGV[1]) end
return 'OK'

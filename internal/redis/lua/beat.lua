-- Tells that a gateway lives, and asks for those that have not told so for a while.
-- KEYS[1]  ack:gateways  sorted set: member = gateway, score = when it last told
-- ARGV: gateway, after how long silence in ms, how many at most.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local is = redis.call('TYPE', KEYS[1]).ok
if is ~= 'none' and is ~= 'zset' then redis.call('UNLINK', KEYS[1]) end -- not written by this script
redis.call('ZADD', KEYS[1], now, ARGV[1])
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2], 'LIMIT', 0, ARGV[3])

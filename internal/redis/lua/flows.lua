-- What all scripts of a gateway's pending set share. It stands before each of them.
--
-- KEYS[1]  ack:pending:ID           sorted set: member = a flow, score = when it is due, in
--                                   Unix ms by this server's clock
-- KEYS[2]  {ack:pending:ID}:flows   hash: member = the state of that flow
-- KEYS[3]  {ack:pending:ID}:lease   who the set belongs to at present
-- KEYS[4]  {ack:pending:ID}:rival   who lives under the same name, and found it taken
local set, flows, lease, rival = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

-- now is the time in ms; instead stands for it unless it is 0, in tests.
local function now(instead)
  if instead ~= '0' then return tonumber(instead) end
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function mine(token)
  return redis.call('GET', lease) == token
end

-- own frees keys that are of another type, which no script here has written: they
-- stand where this set belongs, and would keep it away for ever.
local function own()
  for key, want in pairs({ [set] = 'zset', [flows] = 'hash', [lease] = 'string', [rival] = 'string' }) do
    local is = redis.call('TYPE', key).ok
    if is ~= 'none' and is ~= want then redis.call('UNLINK', key) end
  end
end

local lost = { err = 'LOST the lease of this set has ended, or another has it' }

-- A number of any size up to 2^53, without an exponent.
local function whole(n)
  return string.format('%.0f', n)
end

local function state(seq, attempts, ladder)
  return '{"seq":' .. whole(seq) .. ',"attempts":' .. whole(attempts) .. ',"ladder_ms":[' .. ladder .. ']}'
end

-- parse gives seq, attempts and ladder; nil of what no script here has written.
local function parse(text)
  if not text then return nil end
  local seq, attempts, ladder = string.match(text, '^{"seq":(%d+),"attempts":(%d+),"ladder_ms":%[([%d,]+)%]}$')
  if not seq then return nil end
  return tonumber(seq), tonumber(attempts), ladder
end

-- rung is the wait in ms after an attempt.
local function rung(ladder, attempt)
  local n = 0
  for ms in string.gmatch(ladder, '%d+') do
    n = n + 1
    if n == attempt then return tonumber(ms) end
  end
  return 0
end

// SPDX-License-Identifier: Apache-2.0
#include "cluster/scripts.h"

namespace tb::cluster::scripts {

const redis::Script& enlist() {
  static const redis::Script script{R"(
local old = redis.call('HGET', KEYS[1], ARGV[1])
if old and string.match(old, '^%S+') ~= ARGV[2] then return {'taken', old} end
if not old and ARGV[4] == 'resume' then return {'over'} end
local joined = old and string.match(old, '^%S+ %S+ (%S+)') or redis.call('INCR', KEYS[2])
local beat = old and string.match(old, '^%S+ (%S+)') or 0
local view = redis.call('GET', KEYS[2]) or joined
redis.call('HSET', KEYS[1], ARGV[1],
           table.concat({ARGV[2], beat + 1, joined, view, ARGV[3]}, ' '))
return {'registered', tostring(joined), view}
)"};
  return script;
}

const redis::Script& renew() {
  static const redis::Script script{R"(
local old = redis.call('HGET', KEYS[1], ARGV[1])
if not old then return {'lost'} end
local epoch, beat, joined = string.match(old, '^(%S+) (%S+) (%S+)')
if epoch ~= ARGV[2] then return {'lost'} end
redis.call('HSET', KEYS[1], ARGV[1],
           table.concat({epoch, beat + 1, joined, ARGV[3], ARGV[4]}, ' '))
local answer = {'renewed', redis.call('GET', KEYS[2]) or '0', redis.call('GET', KEYS[3]) or ''}
for _, item in ipairs(redis.call('HGETALL', KEYS[1])) do answer[#answer + 1] = item end
return answer
)"};
  return script;
}

const redis::Script& reap() {
  static const redis::Script script{R"(
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return {'kept'} end
redis.call('HDEL', KEYS[1], ARGV[1])
return {'reaped'}
)"};
  return script;
}

const redis::Script& claim() {
  static const redis::Script script{R"(
if redis.call('GET', KEYS[3]) ~= ARGV[3] .. ' open' then return {'closed'} end
local me = redis.call('HGET', KEYS[2], ARGV[1])
if not me or string.match(me, '^%S+') ~= ARGV[2] then return {'lost'} end
local entry = redis.call('GET', KEYS[1])
if entry then
  local worker, epoch, number, session = string.match(entry, '^(%S+) (%S+) (%S+) (%S+)$')
  if worker ~= ARGV[1] or epoch ~= ARGV[2] then
    local owner = redis.call('HGET', KEYS[2], worker)
    if owner and string.match(owner, '^%S+') == epoch then
      return {'other', worker, owner, session}
    end
  end
end
local now = redis.call('TIME')
local number = math.max((redis.call('GET', KEYS[4]) or 0) + 1,
                        now[1] * 1000 + math.floor(now[2] / 1000))
number = string.format('%.0f', number)
redis.call('SET', KEYS[4], number)
redis.call('SET', KEYS[1], table.concat({ARGV[1], ARGV[2], number, ARGV[4]}, ' '), 'PX', ARGV[5])
redis.call('SET', KEYS[5], ARGV[1], 'PX', ARGV[5])
return {'claimed', number}
)"};
  return script;
}

const redis::Script& restore() {
  static const redis::Script script{R"(
local me = redis.call('HGET', KEYS[2], ARGV[1])
if not me or string.match(me, '^%S+') ~= ARGV[2] then return {'lost'} end
local entry = redis.call('GET', KEYS[1])
if entry then
  local worker, epoch, number, session = string.match(entry, '^(%S+) (%S+) (%S+) (%S+)$')
  if worker ~= ARGV[1] and (ARGV[6] ~= 'owner' or tonumber(number) >= tonumber(ARGV[3])) then
    local owner = redis.call('HGET', KEYS[2], worker)
    if owner and string.match(owner, '^%S+') == epoch then return {'other', worker} end
  end
end
redis.call('SET', KEYS[1], table.concat({ARGV[1], ARGV[2], ARGV[3], ARGV[4]}, ' '), 'PX', ARGV[5])
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[5])
return {'restored'}
)"};
  return script;
}

const redis::Script& release() {
  static const redis::Script script{R"(
if redis.call('GET', KEYS[2]) == ARGV[1] then redis.call('DEL', KEYS[2]) end
local entry = redis.call('GET', KEYS[1])
if not entry then return {'kept'} end
local worker, epoch, number, session = string.match(entry, '^(%S+) (%S+) (%S+) (%S+)$')
if worker ~= ARGV[1] or session ~= ARGV[2] then return {'kept'} end
redis.call('DEL', KEYS[1])
return {'released'}
)"};
  return script;
}

const redis::Script& restore_hint() {
  static const redis::Script script{R"(
local worker = redis.call('GET', KEYS[1])
if worker and worker ~= ARGV[1] and redis.call('HEXISTS', KEYS[2], worker) == 1 then
  return {'other', worker}
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {'restored'}
)"};
  return script;
}

const redis::Script& drop_hint() {
  static const redis::Script script{R"(
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return {'dropped'}
)"};
  return script;
}

const redis::Script& hand_over() {
  static const redis::Script script{R"(
local me = redis.call('HGET', KEYS[3], ARGV[1])
if not me or string.match(me, '^%S+') ~= ARGV[2] then return {'lost'} end
local owner = redis.call('HGET', KEYS[3], ARGV[3])
if not owner or string.match(owner, '^%S+') ~= ARGV[4] then return {'kept'} end
local number = '0'
if ARGV[7] == 'thread' then
  local entry = redis.call('GET', KEYS[1])
  if not entry then return {'kept'} end
  local worker, epoch, old, session = string.match(entry, '^(%S+) (%S+) (%S+) (%S+)$')
  if worker ~= ARGV[3] or epoch ~= ARGV[4] or session ~= ARGV[5] then return {'kept'} end
  local now = redis.call('TIME')
  number = math.max((redis.call('GET', KEYS[4]) or 0) + 1,
                    now[1] * 1000 + math.floor(now[2] / 1000))
  number = string.format('%.0f', number)
  redis.call('SET', KEYS[4], number)
  redis.call('SET', KEYS[1], table.concat({ARGV[1], ARGV[2], number, ARGV[5]}, ' '), 'PX', ARGV[6])
elseif redis.call('GET', KEYS[2]) ~= ARGV[3] then
  return {'kept'}
end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[6])
return {'moved', number}
)"};
  return script;
}

const redis::Script& begin() {
  static const redis::Script script{R"(
local run = redis.call('GET', KEYS[1])
if run == ARGV[1] .. ' open' or run == ARGV[1] .. ' rebuilding' then return {run} end
redis.call('SET', KEYS[1], ARGV[1] .. ' rebuilding')
return {ARGV[1] .. ' rebuilding'}
)"};
  return script;
}

const redis::Script& open() {
  static const redis::Script script{R"(
local run = redis.call('GET', KEYS[1])
if run ~= ARGV[1] .. ' open' and run ~= ARGV[1] .. ' rebuilding' then return {'closed'} end
redis.call('SET', KEYS[1], ARGV[1] .. ' open')
return {'open'}
)"};
  return script;
}

}  // namespace tb::cluster::scripts

// SPDX-License-Identifier: Apache-2.0
// What the keeper does when it is asked: one function a message of jail/wire.h.
#include <sys/socket.h>

#include <algorithm>
#include <optional>

#include "jail/keeper_loop.h"
#include "jail/load.h"
#include "os/fault.h"
#include "os/fdpass.h"

namespace tb::jail {

using std::chrono::milliseconds;

void Keeper::obey(int client, std::string_view message) {
  Reader in{message};
  const auto type = static_cast<Message>(in.u8());
  const std::uint32_t number = in.u32();
  try {
    switch (type) {
      case Message::hello: return hello(client, number);
      case Message::create: return create(client, number, in);
      case Message::attach: return attach(client, number, in);
      case Message::join: return join(client, number, in);
      case Message::release: return release(client, in);
      case Message::label: return label(client, number, in);
      case Message::destroy: return destroy(client, number, in);
      case Message::rest: return rest(client, number, in);
      case Message::list: return list(client, number);
      case Message::make_volume: return make_volume(client, number, in);
      case Message::remove_volume: return remove_volume(client, number, in);
      case Message::list_volumes: return list_volumes(client, number, in);
      case Message::measure: return tell_load(client, number, in);
      case Message::lease: return take_lease(client, number, in);
      case Message::stop: stop_waiters_.push_back(clients_.waiter(client, number)); return stop();
      default: throw Error{Code::invalid, "unknown message"};
    }
  } catch (const Error& error) {
    clients_.fail({client, number}, error.code(), error.what());
  } catch (const std::exception& error) {
    clients_.fail({client, number}, Code::internal, error.what());
  }
}

void Keeper::hello(int client, std::uint32_t number) {
  Welcome welcome;
  welcome.pid = static_cast<std::uint32_t>(::getpid());
  welcome.barriers = barriers_;
  welcome.cleaned = cleaned_;
  Writer out = clients_.reply(Message::welcome, number);
  welcome.encode(out);
  clients_.send(client, out.take());
}

void Keeper::create(int client, std::uint32_t number, Reader& in) {
  Create create;
  if (!Create::decode(in, create)) throw Error{Code::invalid, "malformed create"};
  if (stopping_) throw Error{Code::unavailable, "the keeper is stopping"};
  if (lease_over()) throw Error{Code::unavailable, "this worker has lost its lease"};
  const auto& allowed = options_.environments;
  if (std::find(allowed.begin(), allowed.end(), create.environment) == allowed.end()) {
    throw Error{Code::invalid, "this keeper was not started for the environment " +
                                   create.environment + ": run `threadbox stop` first"};
  }
  if (live_.contains(create.id)) throw Error{Code::conflict, "sandbox " + create.id + " exists"};
  std::optional<std::uint32_t> slot;
  const auto dormant = dormant_.find(create.id);
  if (dormant != dormant_.end()) {
    const Record& record = dormant->second.record;
    slot = record.slot;
    // What was confined comes back as it was, whatever the server says now.
    if (!record.programs.empty()) create.programs = record.programs;
    create.mounts = record.mounts;
  }
  const bool claimed = slot && workshop_.slots && dormant->second.claimed;
  if (claimed) workshop_.slots->release(*slot);  // claimed again at once
  os::fail_attempt(options_.allow_faults ? create.fail_at : 0);
  Live live;
  try {
    live.jail = start_jail(workshop_, create, slot);
  } catch (...) {
    os::fail_attempt(0);
    if (claimed) dormant->second.claimed = workshop_.slots->try_claim(*slot);
    throw;
  }
  os::fail_attempt(0);
  if (dormant != dormant_.end()) dormant_.erase(dormant);
  live.label = create.label;
  live.ttl_ms = create.ttl_ms;
  live.deadline = deadline_after(create.ttl_ms);
  watch(live.jail->guest.get(), EPOLLIN);
  guests_[live.jail->guest.get()] = create.id;
  pids_[live.jail->pid] = create.id;
  live.holder = clients_.waiter(client, number).connection;
  Live& kept = live_.emplace(create.id, std::move(live)).first->second;
  clients_.send(client, clients_.reply(Message::created, number).take(),
                std::move(kept.jail->control));
  save(create.id, kept);
}

void Keeper::attach(int client, std::uint32_t number, Reader& in) {
  pass_socket(get(in.bytes()), clients_.waiter(client, number));
}

// Several programs may share a sandbox, one at a time: the next one waits until the one that has it
// needs it no more.
void Keeper::join(int client, std::uint32_t number, Reader& in) {
  const std::string id = in.bytes();
  Live& live = get(id);
  const Waiter waiter = clients_.waiter(client, number);
  if (live.holder == 0 || live.holder == waiter.connection) return pass_socket(live, waiter);
  live.joining.push_back(waiter);
  clients_.tell_wanted(id, live.holder);
}

void Keeper::release(int client, Reader& in) {
  const auto found = live_.find(in.bytes());
  if (found == live_.end() || found->second.dying) return;
  if (found->second.holder != clients_.waiter(client, 0).connection) return;
  pass_on(found->second);
}

void Keeper::pass_on(Live& live) {
  live.holder = 0;
  while (live.holder == 0 && !live.joining.empty()) {
    const Waiter next = live.joining.front();
    live.joining.pop_front();
    if (!clients_.is_connected(next)) continue;
    try {
      pass_socket(live, next);
    } catch (const Error& error) {
      clients_.fail(next, error.code(), error.what());
    }
  }
  if (!live.joining.empty()) clients_.tell_wanted(live.jail->id, live.holder);
}

// What it made for itself and gave to nobody goes with it.
void Keeper::left(std::uint64_t connection) {
  for (auto& [id, live] : live_) {
    if (live.dying || live.holder != connection) continue;
    if (live.label.empty()) {
      end(live, false);
    } else {
      pass_on(live);
    }
  }
}

void Keeper::pass_socket(Live& live, const Waiter& to) {
  int ends[2];
  check(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "socketpair");
  os::Fd server{ends[0]};
  os::Fd guest{ends[1]};
  const int fd = guest.get();
  if (os::send_packet(live.jail->guest.get(), "s", &fd, 1) != 1) {
    throw SystemError{errno, "reach the guest"};
  }
  live.holder = to.connection;
  clients_.send(to.client, clients_.reply(Message::created, to.number).take(), std::move(server));
}

void Keeper::label(int client, std::uint32_t number, Reader& in) {
  Label label;
  if (!Label::decode(in, label)) throw Error{Code::invalid, "malformed label"};
  Live& live = get(label.id);
  live.ttl_ms = label.ttl_ms;
  live.deadline = deadline_after(label.ttl_ms);
  live.renewed = Clock::now();
  live.mark.reset();
  if (number != 0) clients_.done({client, number});
  if (!label.relabel) return;
  live.label = label.label;
  save(label.id, live);
}

void Keeper::destroy(int client, std::uint32_t number, Reader& in) {
  const std::string id = in.bytes();
  const bool keep_files = in.u8() != 0;
  if (!in.done()) throw Error{Code::invalid, "malformed destroy"};
  if (const auto found = live_.find(id); found != live_.end()) {
    found->second.waiters.push_back(clients_.waiter(client, number));
    end(found->second, keep_files);
  } else {
    const bool forgotten = !keep_files && dormant_.contains(id);
    if (!keep_files) forget_dormant(id);
    clients_.done({client, number});
    if (forgotten) clients_.tell_gone(id, false, {clients_.waiter(client, number)});
  }
}

void Keeper::rest(int client, std::uint32_t number, Reader& in) {
  const std::string id = in.bytes();
  if (!in.done()) throw Error{Code::invalid, "malformed rest"};
  Live& live = get(id);
  if (live.label.empty() || !has_only_files(live.jail->cgroup, live.jail->pid)) {
    throw Error{Code::conflict, "something runs in sandbox " + id + ", or is in its memory"};
  }
  live.waiters.push_back(clients_.waiter(client, number));
  end(live, true);
}

void Keeper::list(int client, std::uint32_t number) {
  const Clock::time_point now = Clock::now();
  const auto left = [now](Clock::time_point deadline) -> std::uint64_t {
    if (deadline == Clock::time_point::max()) return 0;
    return static_cast<std::uint64_t>(std::max<std::int64_t>(
        1, std::chrono::duration_cast<milliseconds>(deadline - now).count()));
  };
  const auto tell = [&](const Item& item) {
    Writer out = clients_.reply(Message::item, number);
    item.encode(out);
    clients_.send(client, out.take());
  };
  for (const auto& [id, live] : live_) {
    if (!live.dying) tell({id, live.jail->environment, 1, left(live.deadline), live.label});
  }
  for (const auto& [id, dormant] : dormant_) {
    tell({id, dormant.record.environment, 0, left(dormant.deadline), dormant.record.label});
  }
  clients_.done({client, number});
}

void Keeper::tell_load(int client, std::uint32_t number, Reader& in) {
  const CgroupLoad load = measure(get(in.bytes()).jail->cgroup);
  Measured measured;
  if (load.memory_bytes) measured.known |= Measured::kMemory;
  if (load.cpu_us) measured.known |= Measured::kCpu;
  if (load.processes) measured.known |= Measured::kProcesses;
  measured.memory_bytes = load.memory_bytes.value_or(0);
  measured.cpu_us = load.cpu_us.value_or(0);
  measured.processes = load.processes.value_or(0);
  Writer out = clients_.reply(Message::measured, number);
  measured.encode(out);
  clients_.send(client, out.take());
}

Live& Keeper::get(const std::string& id) {
  const auto found = live_.find(id);
  if (found == live_.end() || found->second.dying) {
    throw Error{Code::not_found, "sandbox " + id};
  }
  return found->second;
}

}  // namespace tb::jail

// SPDX-License-Identifier: Apache-2.0
#include "jail/keeper_loop.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "jail/barriers.h"
#include "jail/load.h"
#include "os/fdpass.h"
#include "os/prompt.h"

namespace tb::jail {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{500};
constexpr milliseconds kBusyWindow{60000};             // looked at before a deadline
constexpr std::uint64_t kIdleShare = 200;              // of a core: below 1/200 is not work
constexpr auto kLongestBusy = std::chrono::hours{24};  // without any request

char packet_buffer[os::kMaxPacket];

void say(const std::string& text) { std::fprintf(stderr, "keeper: %s\n", text.c_str()); }

}  // namespace

Clock::time_point deadline_after(std::uint64_t ttl_ms) {
  constexpr std::uint64_t kForever = 1000ull * 3600 * 24 * 365 * 10;
  if (ttl_ms == 0 || ttl_ms > kForever) return Clock::time_point::max();
  return Clock::now() + milliseconds{ttl_ms};
}

Keeper::Keeper(const KeeperOptions& options, Workshop workshop)
    : options_(options),
      workshop_(std::move(workshop)),
      records_(options.state_dir + "/sandboxes") {
  load_records();
  watch_signals();
  listen();
  barriers_ = examine_host(&workshop_);
}

int Keeper::run() {
  os::run_promptly();
  alone_since_ = Clock::now();
  while (!(stopping_ && live_.empty())) {
    epoll_event events[64];
    const auto patience = std::min(kTick, until_lease());
    const int n = ::epoll_wait(epoll_.get(), events, 64, static_cast<int>(patience.count()));
    mind_lease();  // first: what is asked below may come from before it ran out
    for (int i = 0; i < n; ++i) handle(events[i]);
    for (const std::uint64_t connection : clients_.take_dropped()) left(connection);
    on_time();
  }
  // First all of it is gone, then it is told.
  ::unlink(keeper_socket(options_.state_dir).c_str());
  workshop_.cgroups.reset();
  workshop_.volumes.reset();
  workshop_.disk.reset();
  for (const Waiter& waiter : stop_waiters_) clients_.done(waiter);
  clients_.flush_all();
  return 0;
}

void Keeper::load_records() {
  unsigned strays = 0;
  std::map<std::string, Record> known = records_.load();
  for (const std::string& id : records_.damaged()) workshop_.disk->set_aside(id);
  for (const std::string& id : workshop_.disk->list()) {
    if (known.contains(id)) continue;
    workshop_.disk->remove_tree(id);
    ++strays;
  }
  std::set<std::string> trees;
  for (std::string& id : workshop_.disk->list()) trees.insert(std::move(id));
  for (auto& [id, record] : known) {
    if (!trees.contains(id)) {
      records_.remove(id);
      continue;
    }
    const Clock::time_point deadline = deadline_after(record.ttl_ms);
    // Another keeper may have it by now: then the files are given to another uid when needed.
    const bool claimed = workshop_.slots && workshop_.slots->try_claim(record.slot);
    dormant_.emplace(id, Dormant{std::move(record), deadline, claimed});
  }
  describe_cleaning(strays);
}

void Keeper::describe_cleaning(unsigned strays) {
  const unsigned groups = workshop_.cgroups->leftover();
  if (groups + strays + records_.damaged().size() == 0) return;
  cleaned_ = "an earlier keeper ended without cleaning up: removed " + std::to_string(groups) +
             " cgroups and " + std::to_string(strays) + " trees without an owner";
  if (!records_.damaged().empty()) {
    cleaned_ += ", set aside " + std::to_string(records_.damaged().size()) +
                " damaged records with their files";
  }
  say(cleaned_);
}

void Keeper::watch_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (int number : {SIGCHLD, SIGTERM, SIGINT}) ::sigaddset(&set, number);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = os::Fd{check(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd")};
  watch(signals_.get(), EPOLLIN);
}

void Keeper::listen() {
  const std::string path = keeper_socket(options_.state_dir);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw Error{Code::invalid, "STATE_DIR is too long for a socket's path: " + path};
  }
  path.copy(address.sun_path, path.size());
  ::unlink(path.c_str());
  listener_ =
      os::Fd{check(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket")};
  check(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address),
        "bind " + path);
  check(::chmod(path.c_str(), 0600), "chmod " + path);
  if (workshop_.root) {
    check(::chown(path.c_str(), options_.server_uid, static_cast<gid_t>(-1)), "chown " + path);
  }
  check(::listen(listener_.get(), 16), "listen");
  watch(listener_.get(), EPOLLIN);
}

void Keeper::watch(int fd, unsigned events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  check(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

void Keeper::handle(const epoll_event& event) {
  const int fd = event.data.fd;
  if (fd == signals_.get()) return on_signals();
  if (fd == listener_.get()) return on_connect();
  if (clients_.has(fd)) {
    if (event.events & EPOLLOUT) clients_.flush(fd);
    if (event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) on_client(fd);
  } else if (const auto guest = guests_.find(fd); guest != guests_.end()) {
    // A guest says nothing to us: this is its end. The rest happens when it is reaped.
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    guests_.erase(guest);
  }
}

void Keeper::on_time() {
  const Clock::time_point now = Clock::now();
  if (now < next_tick_) return;
  next_tick_ = now + kTick;
  expire(now);
  retry_removals();
  workshop_.disk->tidy();
  try {
    workshop_.disk->keep_room();
  } catch (const std::exception& error) {
    say(error.what());
  }
  if (!clients_.empty()) alone_since_ = now;
  if (now - alone_since_ > options_.grace) stop();
}

// What runs in the background without a request is use too, as long as it really works: at the
// deadline it has a little more time if it used the CPU in the time before it.
bool Keeper::still_busy(Live& live, Clock::time_point now) const {
  if (live.deadline == Clock::time_point::max()) return false;
  const milliseconds window = std::clamp(milliseconds{live.ttl_ms / 4}, kTick, kBusyWindow);
  if (now < live.deadline - window) return false;
  const std::optional<std::uint64_t> cpu = cpu_time_us(live.jail->cgroup);
  if (!cpu) return false;
  if (!live.mark) {
    live.mark = Live::Mark{now, *cpu};
    return false;
  }
  if (now < live.deadline) return false;
  const auto elapsed = std::chrono::duration_cast<std::chrono::microseconds>(now - live.mark->at);
  const std::uint64_t floor = static_cast<std::uint64_t>(elapsed.count()) / kIdleShare;
  const bool busy = *cpu - live.mark->cpu_us > floor && now - live.renewed < kLongestBusy;
  if (busy) {
    live.deadline = now + window;
    live.mark = Live::Mark{now, *cpu};
  }
  return busy;
}

void Keeper::expire(Clock::time_point now) {
  for (auto& [id, live] : live_) {
    if (live.dying || still_busy(live, now) || live.deadline > now) continue;
    end(live, false);
  }
  for (auto dormant = dormant_.begin(); dormant != dormant_.end();) {
    const auto current = dormant++;
    if (current->second.deadline > now) continue;
    const std::string id = current->first;
    forget_dormant(id);
    clients_.tell_gone(id, false);
  }
}

void Keeper::on_signals() {
  signalfd_siginfo info{};
  bool children = false;
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD) {
      children = true;
    } else {
      stop();
    }
  }
  if (!children) return;
  for (pid_t pid; (pid = ::waitpid(-1, nullptr, WNOHANG)) > 0;) on_death(pid);
}

void Keeper::on_connect() {
  os::Fd socket{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
  if (!socket || stopping_) return;  // its client comes back to the next keeper
  ucred peer{};
  socklen_t size = sizeof peer;
  check(::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size), "SO_PEERCRED");
  if (peer.uid != 0 && peer.uid != options_.server_uid) return;
  clients_.add(std::move(socket));
}

void Keeper::on_client(int fd) {
  for (int budget = 64; budget > 0; --budget) {
    if (!clients_.has(fd)) return;
    os::Packet packet{packet_buffer, sizeof packet_buffer};
    const int result = os::receive_packet(fd, packet);
    if (result < 0 && errno == EAGAIN) return;
    if (result <= 0) return clients_.drop(fd);
    for (std::size_t i = 0; i < packet.fd_count; ++i) ::close(packet.fds[i]);
    obey(fd, {packet.data, packet.size});
  }
}

void Keeper::save(const std::string& id, const Live& live) {
  if (live.label.empty()) return;  // nobody's yet: its files go with it
  const Jail& jail = *live.jail;
  try {
    records_.save(id, {jail.environment, jail.limits, jail.slot, live.ttl_ms, live.label,
                       jail.programs, jail.mounts});
  } catch (const std::exception& error) {
    say(error.what());  // a full disk: it lives on, but would not survive us
  }
}

void Keeper::end(Live& live, bool keep_files) {
  live.keep_files = keep_files;
  if (live.dying) return;
  live.dying = true;
  live.jail->cgroup.kill();
  ::kill(live.jail->pid, SIGKILL);
}

// PID 1 is gone, and with it everything in its namespaces: the kernel waited for that.
void Keeper::on_death(pid_t pid) {
  const auto found = pids_.find(pid);
  if (found == pids_.end()) return;
  const std::string id = found->second;
  pids_.erase(found);
  const auto at = live_.find(id);
  Live live = std::move(at->second);
  live_.erase(at);
  guests_.erase(live.jail->guest.get());
  const bool asked = live.dying;
  const bool keep = asked ? live.keep_files : !live.label.empty();
  if (!live.jail->cgroup.remove()) removals_.push_back(std::move(live.jail->cgroup));
  if (keep && !live.label.empty()) {
    Record record{
        live.jail->environment, live.jail->limits, live.jail->slot, live.ttl_ms, live.label,
        live.jail->programs,    live.jail->mounts};
    dormant_.emplace(id, Dormant{std::move(record), live.deadline});
  } else {
    forget_files(id);
    if (workshop_.slots) workshop_.slots->release(live.jail->slot);
  }
  for (const Waiter& waiter : live.waiters) clients_.done(waiter);
  for (const Waiter& waiter : live.joining) {
    clients_.fail(waiter, Code::not_found, "sandbox " + id + " has ended");
  }
  clients_.tell_gone(id, dormant_.contains(id), live.waiters);
}

void Keeper::forget_files(const std::string& id) {
  records_.remove(id);
  try {
    workshop_.disk->remove_tree(id);
  } catch (const std::exception& error) {
    say(error.what());
  }
}

void Keeper::forget_dormant(const std::string& id) {
  const auto found = dormant_.find(id);
  if (found == dormant_.end()) return;
  forget_files(id);
  if (workshop_.slots && found->second.claimed) {
    workshop_.slots->release(found->second.record.slot);
  }
  dormant_.erase(found);
}

void Keeper::retry_removals() {
  std::erase_if(removals_, [](SandboxCgroup& cgroup) { return cgroup.remove(); });
}

// Ends every sandbox; the files of those that belong to somebody stay.
void Keeper::stop() {
  if (!stopping_) {
    options_.supervisor.tell("STOPPING=1");
    clients_.tell_stopping();
  }
  stopping_ = true;
  for (auto& [id, live] : live_) end(live, true);
}

}  // namespace tb::jail

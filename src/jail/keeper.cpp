// SPDX-License-Identifier: Apache-2.0
#include "jail/keeper.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "jail/barriers.h"
#include "jail/clients.h"
#include "jail/jail.h"
#include "jail/records.h"
#include "os/fault.h"
#include "os/fdpass.h"

namespace tb::jail {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTick{500};

char packet_buffer[os::kMaxPacket];

void say(const std::string& text) { std::fprintf(stderr, "keeper: %s\n", text.c_str()); }

struct Live {
  std::unique_ptr<Jail> jail;
  std::string label;
  std::uint64_t ttl_ms = 0;
  Clock::time_point deadline = Clock::time_point::max();
  bool dying = false;
  bool keep_files = false;
  std::vector<Waiter> waiters;
};

struct Dormant {
  Record record;
  Clock::time_point deadline = Clock::time_point::max();
};

Clock::time_point deadline_after(std::uint64_t ttl_ms) {
  constexpr std::uint64_t kForever = 1000ull * 3600 * 24 * 365 * 10;
  if (ttl_ms == 0 || ttl_ms > kForever) return Clock::time_point::max();
  return Clock::now() + milliseconds{ttl_ms};
}

class Keeper {
 public:
  Keeper(const KeeperOptions& options, Workshop workshop)
      : options_(options),
        workshop_(std::move(workshop)),
        records_(options.state_dir + "/sandboxes") {
    load_records();
    watch_signals();
    listen();
    barriers_ = examine_host(&workshop_);
  }

  int run() {
    alone_since_ = Clock::now();
    while (!(stopping_ && live_.empty())) {
      epoll_event events[64];
      const int n = ::epoll_wait(epoll_.get(), events, 64, static_cast<int>(kTick.count()));
      for (int i = 0; i < n; ++i) handle(events[i]);
      on_time();
    }
    for (const Waiter& waiter : stop_waiters_) clients_.done(waiter);
    clients_.flush_all();
    ::unlink(keeper_socket(options_.state_dir).c_str());
    workshop_.cgroups->remove();
    return 0;
  }

 private:
  // ---- starting ----

  void load_records() {
    unsigned strays = 0;
    std::map<std::string, Record> known = records_.load();
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
      dormant_.emplace(id, Dormant{std::move(record), deadline});
    }
    describe_cleaning(strays);
  }

  void describe_cleaning(unsigned strays) {
    const unsigned groups = workshop_.cgroups->leftover();
    if (groups + strays + records_.damaged() == 0) return;
    cleaned_ = "an earlier keeper ended without cleaning up: removed " + std::to_string(groups) +
               " cgroups and " + std::to_string(strays) + " trees without an owner";
    if (records_.damaged() > 0) {
      cleaned_ += ", set aside " + std::to_string(records_.damaged()) + " damaged records";
    }
    say(cleaned_);
  }

  void watch_signals() {
    sigset_t set;
    ::sigemptyset(&set);
    for (int number : {SIGCHLD, SIGTERM, SIGINT}) ::sigaddset(&set, number);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    signals_ = os::Fd{check(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd")};
    watch(signals_.get(), EPOLLIN);
  }

  void listen() {
    const std::string path = keeper_socket(options_.state_dir);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
      throw Error{Code::invalid, "STATE_DIR is too long for a socket's path: " + path};
    }
    path.copy(address.sun_path, path.size());
    ::unlink(path.c_str());
    listener_ = os::Fd{
        check(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket")};
    check(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address),
          "bind " + path);
    check(::chmod(path.c_str(), 0600), "chmod " + path);
    if (workshop_.root) {
      check(::chown(path.c_str(), options_.server_uid, static_cast<gid_t>(-1)), "chown " + path);
    }
    check(::listen(listener_.get(), 16), "listen");
    watch(listener_.get(), EPOLLIN);
  }

  void watch(int fd, unsigned events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    check(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
  }

  // ---- the loop ----

  void handle(const epoll_event& event) {
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

  void on_time() {
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

  void expire(Clock::time_point now) {
    for (auto& [id, live] : live_) {
      if (live.dying || live.deadline > now) continue;
      end(live, false);
    }
    for (auto dormant = dormant_.begin(); dormant != dormant_.end();) {
      const auto current = dormant++;
      if (current->second.deadline > now) continue;
      forget_files(current->first);
      clients_.tell_gone(current->first, false);
      dormant_.erase(current);
    }
  }

  void on_signals() {
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

  void on_connect() {
    os::Fd socket{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!socket) return;
    ucred peer{};
    socklen_t size = sizeof peer;
    check(::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size), "SO_PEERCRED");
    if (peer.uid != 0 && peer.uid != options_.server_uid) return;
    clients_.add(std::move(socket));
  }

  void on_client(int fd) {
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

  // ---- requests ----

  void obey(int client, std::string_view message) {
    Reader in{message};
    const auto type = static_cast<Message>(in.u8());
    const std::uint32_t number = in.u32();
    try {
      switch (type) {
        case Message::hello: return hello(client, number);
        case Message::create: return create(client, number, in);
        case Message::attach: return attach(client, number, in);
        case Message::label: return label(client, number, in);
        case Message::destroy: return destroy(client, number, in);
        case Message::list: return list(client, number);
        case Message::stop: stop_waiters_.push_back({client, number}); return stop();
        default: throw Error{Code::invalid, "unknown message"};
      }
    } catch (const Error& error) {
      clients_.fail({client, number}, error.code(), error.what());
    } catch (const std::exception& error) {
      clients_.fail({client, number}, Code::internal, error.what());
    }
  }

  void hello(int client, std::uint32_t number) {
    Welcome welcome;
    welcome.pid = static_cast<std::uint32_t>(::getpid());
    welcome.barriers = barriers_;
    welcome.cleaned = cleaned_;
    Writer out = clients_.reply(Message::welcome, number);
    welcome.encode(out);
    clients_.send(client, out.take());
  }

  void create(int client, std::uint32_t number, Reader& in) {
    Create create;
    if (!Create::decode(in, create)) throw Error{Code::invalid, "malformed create"};
    if (stopping_) throw Error{Code::unavailable, "the keeper is stopping"};
    if (live_.contains(create.id)) throw Error{Code::conflict, "sandbox " + create.id + " exists"};
    std::optional<std::uint32_t> slot;
    const auto dormant = dormant_.find(create.id);
    if (dormant != dormant_.end()) slot = dormant->second.record.slot;
    os::fail_attempt(options_.allow_faults ? create.fail_at : 0);
    Live live;
    try {
      live.jail = start_jail(workshop_, create, slot);
    } catch (...) {
      os::fail_attempt(0);
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
    clients_.send(client, clients_.reply(Message::created, number).take(),
                  std::move(live.jail->control));
    save(create.id, live);
    live_.emplace(create.id, std::move(live));
  }

  void attach(int client, std::uint32_t number, Reader& in) {
    Live& live = get(in.bytes());
    int ends[2];
    check(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "socketpair");
    os::Fd server{ends[0]};
    os::Fd guest{ends[1]};
    const int fd = guest.get();
    if (os::send_packet(live.jail->guest.get(), "s", &fd, 1) != 1) {
      throw SystemError{errno, "reach the guest"};
    }
    clients_.send(client, clients_.reply(Message::created, number).take(), std::move(server));
  }

  void label(int client, std::uint32_t number, Reader& in) {
    Label label;
    if (!Label::decode(in, label)) throw Error{Code::invalid, "malformed label"};
    Live& live = get(label.id);
    live.ttl_ms = label.ttl_ms;
    live.deadline = deadline_after(label.ttl_ms);
    if (number != 0) clients_.done({client, number});
    if (!label.relabel) return;
    live.label = label.label;
    save(label.id, live);
  }

  void destroy(int client, std::uint32_t number, Reader& in) {
    const std::string id = in.bytes();
    if (!in.done()) throw Error{Code::invalid, "malformed destroy"};
    if (const auto found = live_.find(id); found != live_.end()) {
      found->second.waiters.push_back({client, number});
      end(found->second, false);
    } else {
      if (dormant_.erase(id) > 0) forget_files(id);
      clients_.done({client, number});
    }
  }

  void list(int client, std::uint32_t number) {
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

  Live& get(const std::string& id) {
    const auto found = live_.find(id);
    if (found == live_.end() || found->second.dying) {
      throw Error{Code::not_found, "sandbox " + id};
    }
    return found->second;
  }

  // ---- the life of a sandbox ----

  void save(const std::string& id, const Live& live) {
    if (live.label.empty()) return;  // nobody's yet: its files go with it
    const Jail& jail = *live.jail;
    records_.save(id, {jail.environment, jail.limits, jail.slot, live.ttl_ms, live.label});
  }

  void end(Live& live, bool keep_files) {
    live.keep_files = keep_files;
    if (live.dying) return;
    live.dying = true;
    live.jail->cgroup.kill();
    ::kill(live.jail->pid, SIGKILL);
  }

  // PID 1 is gone, and with it everything in its namespaces: the kernel waited for that.
  void on_death(pid_t pid) {
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
      Record record{live.jail->environment, live.jail->limits, live.jail->slot, live.ttl_ms,
                    live.label};
      dormant_.emplace(id, Dormant{std::move(record), live.deadline});
    } else {
      forget_files(id);
    }
    if (workshop_.slots) workshop_.slots->release(live.jail->slot);
    for (const Waiter& waiter : live.waiters) clients_.done(waiter);
    if (live.waiters.empty()) clients_.tell_gone(id, dormant_.contains(id));
  }

  void forget_files(const std::string& id) {
    records_.remove(id);
    try {
      workshop_.disk->remove_tree(id);
    } catch (const std::exception& error) {
      say(error.what());
    }
  }

  void retry_removals() {
    std::erase_if(removals_, [](SandboxCgroup& cgroup) { return cgroup.remove(); });
  }

  // Ends every sandbox; the files of those that belong to somebody stay.
  void stop() {
    stopping_ = true;
    for (auto& [id, live] : live_) end(live, true);
  }

  const KeeperOptions& options_;
  Workshop workshop_;
  Records records_;
  std::vector<Barrier> barriers_;
  std::string cleaned_;
  os::Fd epoll_{check(::epoll_create1(EPOLL_CLOEXEC), "epoll_create")};
  os::Fd signals_;
  os::Fd listener_;
  Clients clients_{epoll_};
  std::map<int, std::string> guests_;
  std::map<pid_t, std::string> pids_;
  std::map<std::string, Live> live_;
  std::map<std::string, Dormant> dormant_;
  std::vector<SandboxCgroup> removals_;
  std::vector<Waiter> stop_waiters_;
  Clock::time_point alone_since_;
  Clock::time_point next_tick_;
  bool stopping_ = false;
};

// One keeper for a state directory.
os::Fd lock_state(const std::string& state_dir) {
  std::filesystem::create_directories(state_dir);
  const std::string path = state_dir + "/keeper.lock";
  os::Fd lock{check(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), "open " + path)};
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    throw Error{Code::conflict, "a keeper for " + state_dir + " is already running"};
  }
  return lock;
}

// Without root, a user namespace in which we are: then the rest is the same.
void enter_own_namespaces(bool root) {
  const uid_t uid = ::getuid();
  const gid_t gid = ::getgid();
  check(::unshare(root ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS),
        root ? "unshare the mount namespace" : "make a user namespace");
  if (!root) {
    os::write_file("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1\n");
    os::write_file("/proc/self/setgroups", "deny");
    os::write_file("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1\n");
  }
  // Nothing that we mount reaches the host, and nothing stays when we are gone.
  check(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "make mounts private");
}

void raise_file_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void tell_ready(int fd, const std::string& text) {
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t n = ::write(fd, text.data(), text.size());
  ::close(fd);
}

}  // namespace

std::string keeper_socket(const std::string& state_dir) { return state_dir + "/keeper.sock"; }

int run_keeper(const KeeperOptions& options) {
  std::optional<Keeper> keeper;
  os::Fd lock;
  try {
    lock = lock_state(options.state_dir);
    const bool root = ::geteuid() == 0;
    raise_file_limit();
    ::umask(022);
    ::signal(SIGPIPE, SIG_IGN);
    enter_own_namespaces(root);
    keeper.emplace(options, open_workshop(options.state_dir, root));
  } catch (const std::exception& error) {
    say(error.what());
    tell_ready(options.ready_fd, error.what());
    return 1;
  }
  tell_ready(options.ready_fd, "ok");
  return keeper->run();
}

}  // namespace tb::jail

// SPDX-License-Identifier: Apache-2.0
#include "embed/engine.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "embed/operations.h"
#include "native/launch.h"
#include "os/prompt.h"

namespace tb::embed {
namespace {

constexpr auto kStart = 10s;   // for a keeper that ends, and the next one
constexpr auto kPause = 20ms;  // between two attempts
constexpr auto kEnd = 5s;      // for the loop to come to its end

std::mutex& family_lock() {
  static auto* lock = new std::mutex;  // never destroyed: other threads may outlive main()
  return *lock;
}

std::vector<Engine*>& family() {
  static auto* engines = new std::vector<Engine*>;
  return *engines;
}

// What is missing, in words of who has to change it.
std::string explained(const std::string& problem) {
  if (problem.find("user namespace") == std::string::npos) return problem;
  return problem +
         ": this kernel, or the container around us, forbids user namespaces to users; "
         "run as root, or allow them (sysctl user.max_user_namespaces, "
         "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)";
}

// Signals are for the program that we are a part of.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

std::exception_ptr was_closed() {
  return std::make_exception_ptr(Error{Code::unavailable, "the engine was closed"});
}

}  // namespace

// All engines of this process, for fork(2).
struct Family {
  static void lock() { family_lock().lock(); }
  static void unlock() { family_lock().unlock(); }
  static void in_child() {
    for (Engine* engine : family()) engine->abandon();
    family_lock().unlock();
  }
  static void add(Engine* engine) {
    static const int registered = ::pthread_atfork(lock, unlock, in_child);
    (void)registered;
    const std::lock_guard guard{family_lock()};
    family().push_back(engine);
  }
  static void remove(Engine* engine) {
    const std::lock_guard guard{family_lock()};
    std::erase(family(), engine);
  }
};

class Engine::Loop : public std::enable_shared_from_this<Engine::Loop> {
 public:
  Loop(const Settings& settings, const registry::Registry& registry)
      : settings_(settings), registry_(registry) {}

  void start() {
    const SignalsBlocked blocked;
    thread_ = std::thread{[self = shared_from_this()] { self->run(); }};
    ::pthread_setname_np(thread_.native_handle(), "threadbox");
  }

  void submit(std::shared_ptr<Operation> operation) {
    asio::post(context_, [self = shared_from_this(), operation] { self->begin(operation); });
  }

  void post(std::function<void()> task) { asio::post(context_, std::move(task)); }

  void close() {
    asio::post(context_, [this] { begin_close(); });
    std::unique_lock guard{lock_};
    if (ended_changed_.wait_for(guard, kEnd, [this] { return ended_; })) {
      guard.unlock();
      if (thread_.joinable()) thread_.join();
    } else if (thread_.joinable()) {
      thread_.detach();  // something of it hangs: better left behind than waited for
    }
  }

  // In a child: everything here belongs to the parent, its epoll descriptor too. The connection and
  // the locks alone must not stay open when the parent ends.
  void disown() {
    for (const std::atomic<int>& descriptor : inherited_) {
      if (const int fd = descriptor.load(); fd >= 0) ::close(fd);
    }
  }

 private:
  void run() {
    os::run_promptly();
    context_.run();
    core_.reset();
    const std::lock_guard guard{lock_};
    ended_ = true;
    ended_changed_.notify_all();
  }

  void begin(std::shared_ptr<Operation> operation) {
    if (closing_) return operation->done_(was_closed());
    ++running_;
    operations_.push_back(operation);
    auto task = [this, operation]() -> awaitable<void> {
      const std::shared_ptr<Core> core = co_await ready();
      co_await operation->work_(core);
    };
    asio::co_spawn(context_, std::move(task),
                   asio::bind_cancellation_slot(
                       operation->cancel_.slot(),
                       [this, operation](std::exception_ptr failure) { end(operation, failure); }));
  }

  void end(const std::shared_ptr<Operation>& operation, std::exception_ptr failure) {
    operation->over_ = true;
    operation->work_ = nullptr;
    std::erase(operations_, operation);
    operation->stop_ = nullptr;
    const Operation::Done done = std::move(operation->done_);
    done(operation->closed_ ? was_closed() : failure);
    --running_;
    changed_.notify_all();
  }

  awaitable<std::shared_ptr<Core>> ready() {
    while (!core_ || core_->lost()) {
      if (!opening_) {
        opening_ = true;
        std::exception_ptr failure;
        try {
          co_await open();
        } catch (...) {
          failure = std::current_exception();
        }
        opening_ = false;
        changed_.notify_all();
        if (failure) std::rethrow_exception(failure);
      } else {
        co_await changed_.wait();
      }
    }
    co_return core_;
  }

  // Others that wait for it must not be left without it when the one that opens is cancelled.
  awaitable<void> open() {
    co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
    forget_descriptors();
    if (const std::shared_ptr<Core> old = std::exchange(core_, nullptr)) co_await old->close();
    const auto deadline = std::chrono::steady_clock::now() + kStart;
    for (;;) {
      std::exception_ptr failure;
      bool passing = false;
      std::shared_ptr<Core> core;
      try {
        prepare();
        passing = true;  // what answered may be a keeper that is about to end
        core = std::make_shared<Core>(context_, settings_.config, registry_);
        remember_descriptors(*core);
        co_await core->open();
      } catch (const Error& error) {
        failure = std::current_exception();
        passing = error.code() == Code::conflict || (passing && (!core || core->lost()));
      }
      if (!failure) {
        core_ = std::move(core);
        co_return;
      }
      forget_descriptors();
      if (core) co_await core->close();
      if (!passing || std::chrono::steady_clock::now() > deadline) std::rethrow_exception(failure);
      asio::steady_timer pause{context_, kPause};
      co_await pause.async_wait(asio::use_awaitable);
    }
  }

  void remember_descriptors(Core& core) {
    const std::vector<int> descriptors = core.descriptors();
    TB_ASSERT(descriptors.size() == inherited_.size());
    std::copy(descriptors.begin(), descriptors.end(), inherited_.begin());
  }

  void forget_descriptors() {
    for (std::atomic<int>& descriptor : inherited_) descriptor = -1;
  }

  void prepare() {
    const Config& config = settings_.config;
    std::error_code failed;
    std::filesystem::create_directories(config.state_dir + "/output", failed);
    if (failed) {
      throw SetUpError{"local mode can't make its state directory " + config.state_dir + ": " +
                       failed.message() + "; name another one (state_dir)"};
    }
    check(::chmod(config.state_dir.c_str(), 0711), "chmod " + config.state_dir);
    check(::chmod((config.state_dir + "/output").c_str(), 0700), "chmod output");
    native::KeeperLaunch launch;
    launch.state_dir = config.state_dir;
    launch.server_uid = ::geteuid();
    launch.grace_seconds = static_cast<unsigned>(config.keeper_grace.count());
    launch.environments = registry_.roots();
    launch.environments.push_back(config.environment);
    launch.program = settings_.program;
    launch.detach = true;
    try {
      native::ensure_keeper(launch);
    } catch (const Error& error) {
      if (error.code() == Code::conflict) throw;
      throw SetUpError{"local mode can't start here: " + explained(error.what())};
    }
  }

  void begin_close() {
    if (std::exchange(closing_, true)) return;
    auto task = [this]() -> awaitable<void> {
      for (const auto& operation : std::vector{operations_}) {
        operation->closed_ = true;
        operation->cancel();
      }
      while (running_ > 0) co_await changed_.wait();
      if (core_) co_await core_->close();
    };
    asio::co_spawn(context_, std::move(task), [this](std::exception_ptr) { context_.stop(); });
  }

  const Settings settings_;  // of its own: a loop that hangs outlives its engine
  const registry::Registry registry_;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard_{context_.get_executor()};
  std::thread thread_;
  std::array<std::atomic<int>, 3> inherited_{-1, -1, -1};
  // ---- the loop's thread alone ----
  std::shared_ptr<Core> core_;
  Signal changed_{context_.get_executor()};
  std::vector<std::shared_ptr<Operation>> operations_;
  std::size_t running_ = 0;
  bool opening_ = false;
  bool closing_ = false;
  // ---- shared ----
  std::mutex lock_;
  std::condition_variable ended_changed_;
  bool ended_ = false;
};

Engine::Engine(Settings settings)
    : settings_(std::move(settings)),
      registry_(registry::Registry::load(settings_.config.registry_dir)) {
  if (!registry_.policies().find(settings_.config.policy)) {
    throw Error{Code::invalid, "there is no policy \"" + settings_.config.policy + "\""};
  }
  set_log(settings_.config.log_level, settings_.config.log_json);
  Family::add(this);
}

Engine::~Engine() {
  Family::remove(this);
  close();
}

std::shared_ptr<Engine::Loop> Engine::loop() {
  const std::lock_guard guard{family_lock()};
  if (!loop_) {
    loop_ = std::make_shared<Loop>(settings_, registry_);
    loop_->start();
  }
  return loop_;
}

// Leaked on purpose: ending it would reach into what the parent still uses.
void Engine::abandon() {
  if (!loop_) return;
  loop_->disown();
  new std::shared_ptr<Loop>(std::move(loop_));
  loop_ = nullptr;
}

void Operation::cancel() {
  if (over_) return;
  if (stop_) stop_();
  cancel_.emit(asio::cancellation_type::terminal);
}

std::shared_ptr<Operation> Engine::submit(Operation::Work work, Operation::Done done,
                                          Operation::Stop stop) {
  auto operation = std::make_shared<Operation>();
  operation->work_ = std::move(work);
  operation->done_ = std::move(done);
  operation->stop_ = std::move(stop);
  loop()->submit(operation);
  return operation;
}

void Engine::cancel(const std::shared_ptr<Operation>& operation) {
  post([operation] { operation->cancel(); });
}

void Engine::post(std::function<void()> task) {
  std::shared_ptr<Loop> loop;
  {
    const std::lock_guard guard{family_lock()};
    loop = loop_;
  }
  if (loop) loop->post(std::move(task));
}

void Engine::close() {
  std::shared_ptr<Loop> loop;
  {
    const std::lock_guard guard{family_lock()};
    loop = std::exchange(loop_, nullptr);
  }
  if (loop) loop->close();
}

}  // namespace tb::embed

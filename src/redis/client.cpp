// SPDX-License-Identifier: Apache-2.0
#include "redis/client.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>

#include "base/async.h"
#include "base/error.h"
#include "base/hex.h"
#include "base/sha1.h"
#include "redis/link.h"
#include "redis/locate.h"

namespace tb::redis {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPiece = 64 << 10;
constexpr std::size_t kMostWaiting = 100'000;  // commands without a reply

Error refused(const Reply& reply) { return Error{Code::unavailable, "Redis says " + reply.text}; }

// "run_id:…" of INFO.
std::string field_of(const std::string& info, const std::string& name) {
  const std::size_t at = info.find("\n" + name + ":");
  if (at == info.npos) return {};
  const std::size_t begin = at + name.size() + 2;
  return info.substr(begin, info.find_first_of("\r\n", begin) - begin);
}

}  // namespace

Script::Script(std::string text) : text_(std::move(text)) { hash_ = to_hex(sha1(text_)); }

class Client::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::any_io_executor executor, Settings settings)
      : executor_(executor),
        settings_(std::move(settings)),
        resolver_(executor, {.servers = {}, .limit = settings_.connect}),
        tls_(settings_.authorities),
        to_send_(executor),
        overdue_(executor),
        tasks_(executor, [](const std::string&, std::exception_ptr) {}) {}

  void open(std::function<void()> changed) {
    changed_ = std::move(changed);
    tasks_.spawn("redis", [this] { return stay_connected(); });
  }

  awaitable<void> close() {
    closing_ = true;
    overdue_.cancel();
    if (link_) link_->close();
    co_await tasks_.close();
    fail_all("the client is closed");
  }

  struct Pending {
    explicit Pending(asio::any_io_executor executor) : arrived(executor) {}
    bool over = false;
    Reply reply;
    std::string failure;
    Clock::time_point deadline;
    Signal arrived;
  };
  using Waiting = std::shared_ptr<Pending>;

  Waiting send(const Command& command) {
    if (!ready_) throw Error{Code::unavailable, "Redis can't be reached: " + problem_};
    return enqueue(command);
  }

  static awaitable<Reply> reply_to(Waiting pending) {
    while (!pending->over) co_await pending->arrived.wait();
    if (!pending->failure.empty()) throw Error{Code::unavailable, pending->failure};
    co_return std::move(pending->reply);
  }

  bool ready_ = false;
  std::string run_id_;
  std::string problem_ = "not tried yet";
  std::uint64_t sent_ = 0;

 private:
  Waiting enqueue(const Command& command) {
    if (waiting_.size() >= kMostWaiting) {
      throw Error{Code::unavailable, "too many commands wait for Redis"};
    }
    auto pending = std::make_shared<Pending>(executor_);
    pending->deadline = Clock::now() + settings_.answer;
    out_ += format(command);
    ++sent_;
    waiting_.push_back(pending);
    if (waiting_.size() == 1) watch_oldest();
    to_send_.notify_all();
    return pending;
  }

  // Replies come in the order of the commands, so only the oldest can be late.
  void watch_oldest() {
    if (waiting_.empty()) return;
    overdue_.expires_at(waiting_.front()->deadline);
    overdue_.async_wait([this, self = shared_from_this()](boost::system::error_code error) {
      if (error || waiting_.empty() || closing_) return;
      if (waiting_.front()->deadline > Clock::now()) return watch_oldest();
      lose("no answer in time");
    });
  }

  void lose(const std::string& why) {
    problem_ = why;
    if (link_) link_->close();  // ends the reading, which tells everybody
  }

  void fail_all(const std::string& why) {
    for (const Waiting& pending : std::exchange(waiting_, {})) {
      pending->failure = "Redis: " + why;
      pending->over = true;
      pending->arrived.notify_all();
    }
    out_.clear();
  }

  void tell() const {
    if (changed_ && !closing_) changed_();
  }

  awaitable<void> stay_connected() {
    Milliseconds pause = settings_.first_retry;
    while (!closing_) {
      try {
        co_await connect();
        pause = settings_.first_retry;
        co_await read_on();
      } catch (const Error& error) {
        problem_ = error.what();
      }
      const bool was_ready = std::exchange(ready_, false);
      run_id_.clear();
      link_->close();
      fail_all(problem_);
      to_send_.notify_all();
      if (conversation_) co_await conversation_->close();
      conversation_.reset();
      if (was_ready) tell();
      if (closing_) co_return;
      asio::steady_timer timer{executor_, pause};
      co_await timer.async_wait(asio::use_awaitable);
      pause = std::min(pause * 2, settings_.last_retry);
    }
  }

  awaitable<void> connect() {
    link_ = std::make_unique<Link>(executor_);
    reader_ = std::make_unique<ReplyReader>();
    conversation_.emplace(executor_, [](const std::string&, std::exception_ptr) {});
    auto task = reach();
    const std::optional<bool> done = co_await within(settings_.connect, std::move(task));
    if (!done) throw Error{Code::unavailable, "no connection in time"};
    conversation_->spawn("write", [this] { return write_on(); });
    conversation_->spawn("greet", [this] { return greet(); });
  }

  awaitable<bool> reach() {
    const Node node = co_await locate(executor_, settings_, resolver_, tls_);
    co_await link_->connect(node, settings_.tls, resolver_, tls_);
    co_return true;
  }

  // Until this is through, nobody else's commands are sent.
  awaitable<void> greet() {
    try {
      std::vector<Waiting> sent;
      if (!settings_.password.empty()) {
        Command auth{"AUTH"};
        if (!settings_.user.empty()) auth.push_back(settings_.user);
        auth.push_back(settings_.password);
        sent.push_back(enqueue(auth));
      }
      if (settings_.database != 0) {
        sent.push_back(enqueue({"SELECT", std::to_string(settings_.database)}));
      }
      sent.push_back(enqueue({"PING"}));  // refused while it loads its data
      const Waiting info = enqueue({"INFO"});
      for (const Waiting& one : sent) {
        const Reply reply = co_await reply_to(one);
        if (reply.is_error()) throw refused(reply);
      }
      const Reply about = co_await reply_to(info);
      if (about.is_error()) throw refused(about);
      const std::string role = field_of(about.text, "role");
      if (role == "slave")
        throw Error{Code::unavailable, "this Redis is a replica: not written to"};
      run_id_ = field_of(about.text, "run_id");
      if (run_id_.empty()) throw Error{Code::unavailable, "this Redis does not tell its run id"};
      problem_.clear();
      ready_ = true;
    } catch (const Error& error) {
      lose(error.what());
    }
    if (ready_) tell();
  }

  awaitable<void> write_on() {
    std::string now;
    for (;;) {
      while (out_.empty()) co_await to_send_.wait();
      now.swap(out_);
      out_.clear();
      try {
        co_await link_->write(now);
      } catch (const Error& error) {
        lose(error.what());
        co_return;
      }
    }
  }

  awaitable<void> read_on() {
    std::array<char, kPiece> piece;
    for (;;) {
      const std::size_t got = co_await link_->read_some(piece);
      if (got == 0) {
        if (problem_.empty()) problem_ = "the connection ended";
        throw Error{Code::unavailable, problem_};
      }
      reader_->feed({piece.data(), got});
      while (std::optional<Reply> reply = reader_->next()) {
        if (waiting_.empty()) throw Error{Code::unavailable, "a reply to no command"};
        const Waiting pending = waiting_.front();
        waiting_.pop_front();
        pending->reply = std::move(*reply);
        pending->over = true;
        const bool elsewhere = is_elsewhere(pending->reply);
        pending->arrived.notify_all();
        if (elsewhere) throw Error{Code::unavailable, "another Redis is the primary now"};
      }
    }
  }

  asio::any_io_executor executor_;
  const Settings settings_;
  net::Resolver resolver_;
  net::Tls tls_;
  std::unique_ptr<Link> link_;
  std::unique_ptr<ReplyReader> reader_;
  std::function<void()> changed_;
  std::string out_;
  std::deque<Waiting> waiting_;
  Signal to_send_;
  asio::steady_timer overdue_;
  bool closing_ = false;
  std::optional<TaskGroup> conversation_;  // what goes on over the connection
  TaskGroup tasks_;
};

Client::Client(asio::any_io_executor executor, Settings settings)
    : impl_(std::make_shared<Impl>(executor, std::move(settings))) {}

Client::~Client() = default;

void Client::open(std::function<void()> changed) { impl_->open(std::move(changed)); }
awaitable<void> Client::close() { return impl_->close(); }
bool Client::connected() const { return impl_->ready_; }
const std::string& Client::run_id() const { return impl_->run_id_; }
const std::string& Client::problem() const { return impl_->problem_; }
std::uint64_t Client::commands_sent() const { return impl_->sent_; }

awaitable<Reply> Client::call(Command command) {
  Reply reply = co_await Impl::reply_to(impl_->send(command));
  if (reply.is_error()) throw refused(reply);
  co_return reply;
}

awaitable<std::vector<Reply>> Client::call_all(std::vector<Command> commands) {
  std::vector<Impl::Waiting> sent;
  for (const Command& command : commands) sent.push_back(impl_->send(command));
  std::vector<Reply> replies;
  for (const Impl::Waiting& one : sent) replies.push_back(co_await Impl::reply_to(one));
  co_return replies;
}

Command Client::by_hash(const Script& script, std::vector<std::string> keys,
                        std::vector<std::string> arguments) {
  Command command{"EVALSHA", script.hash(), std::to_string(keys.size())};
  for (std::string& key : keys) command.push_back(std::move(key));
  for (std::string& argument : arguments) command.push_back(std::move(argument));
  return command;
}

awaitable<Reply> Client::run(const Script& script, std::vector<std::string> keys,
                             std::vector<std::string> arguments) {
  Command command = by_hash(script, std::move(keys), std::move(arguments));
  Reply reply = co_await Impl::reply_to(impl_->send(command));
  if (reply.is_error() && reply.text.starts_with("NOSCRIPT")) {
    command[0] = "EVAL";
    command[1] = script.text();
    reply = co_await Impl::reply_to(impl_->send(command));
  }
  if (reply.is_error()) throw refused(reply);
  co_return reply;
}

}  // namespace tb::redis

// SPDX-License-Identifier: Apache-2.0
// Stdin of a process: writers have their turns in order, and what is on its way can't be taken
// back.
#include <algorithm>

#include "base/sha256.h"
#include "e2b/process.h"

namespace tb::e2b {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPiece = 64 << 10;
constexpr auto kLateAnswer = 2s;
constexpr Milliseconds kLongest = std::chrono::hours{24};

}  // namespace

// A piece that E2B has not taken yet.
struct E2bProcess::Sending {
  bool done = false;
  bool refused = false;  // nobody reads it
  std::string failure;   // it is not known what became of it
};

// Leaves the queue wherever it stands in it: who waits may be cancelled.
struct E2bProcess::Turn {
  explicit Turn(std::shared_ptr<E2bProcess> of)
      : process(std::move(of)), place(process->writers_.emplace(process->writers_.end())) {}
  ~Turn() {
    process->writers_.erase(place);
    process->changed_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  std::shared_ptr<E2bProcess> process;
  std::list<char>::iterator place;
};

void E2bProcess::refuse_input() const {
  throw Error{Code::conflict, exit_ ? "the process has ended" : "stdin is closed"};
}

// False: it is still on its way when the time is over.
awaitable<bool> E2bProcess::send_piece(std::string piece, Clock::time_point until) {
  if (!sending_) {
    const auto sending = std::make_shared<Sending>();
    sending_ = sending;
    parts_.spawn(
        "input",
        [self = shared_from_this(), sending, piece = std::move(piece)]() -> awaitable<void> {
          json::object input{{self->info_.terminal ? "pty" : "stdin", base64(piece)}};
          json::object request{{"process", self->selector()}, {"input", std::move(input)}};
          try {
            co_await self->parts_.envd->call("process.Process/SendInput", std::move(request),
                                             std::string{}, kLongest);
          } catch (const CallError&) {
            sending->refused = true;
          } catch (const Error& error) {
            sending->failure = error.what();
          }
          sending->done = true;
          self->changed_.notify_all();
        });
  }
  const std::shared_ptr<Sending> sending = sending_;
  auto over = [&] { return sending->done || exit_.has_value(); };
  const auto left = std::max<std::chrono::nanoseconds>(until - Clock::now(), 0ns);
  const bool known = co_await changed_.until(over, left);
  if (!known) co_return false;
  // What ended it may have been this very piece: then its answer is on its way.
  auto answered = [&] { return sending->done; };
  co_await changed_.until(answered, kLateAnswer);
  if (sending_ == sending) sending_.reset();
  if (!sending->failure.empty() && !exit_) {
    throw Error{Code::unavailable,
                "it is not known whether the input arrived: " + sending->failure};
  }
  if (sending->refused) input_open_ = false;
  if (sending->refused || !sending->done) refuse_input();
  co_return true;
}

std::shared_ptr<E2bProcess::Turn> E2bProcess::queue_up() {
  return std::make_shared<Turn>(shared_from_this());
}

awaitable<void> E2bProcess::wait_turn(const Turn& turn) {
  while (turn.place != writers_.begin()) co_await changed_.wait();
}

// What it says to its input would be lost while the stream is being opened again.
awaitable<bool> E2bProcess::wait_listened_to(Clock::time_point until) {
  auto ready = [this] { return listened_to_ || exit_.has_value(); };
  co_return co_await changed_.until(ready,
                                    std::max<std::chrono::nanoseconds>(until - Clock::now(), 0ns));
}

awaitable<std::size_t> E2bProcess::send_input(std::shared_ptr<Turn> turn, std::string bytes,
                                              std::optional<Milliseconds> limit) {
  const auto self = shared_from_this();
  const auto until = Clock::now() + limit.value_or(kLongest);
  co_await wait_turn(*turn);
  std::size_t taken = 0;
  const bool heard = co_await wait_listened_to(until);
  if (!heard) co_return taken;
  if (exit_) refuse_input();
  if (sending_) {
    // What the one before could not wait for.
    const bool clear = co_await send_piece(std::string{}, until);
    if (!clear) co_return taken;
  }
  while (taken < bytes.size()) {
    std::string piece = bytes.substr(taken, kPiece);
    const std::size_t size = piece.size();
    const bool arrived = co_await send_piece(std::move(piece), until);
    taken += size;
    if (!arrived) break;
  }
  co_return taken;
}

awaitable<void> E2bProcess::write_input(std::string bytes) {
  if (!input_open()) refuse_input();
  co_await send_input(queue_up(), std::move(bytes), std::nullopt);
}

awaitable<std::size_t> E2bProcess::offer_input(std::string bytes, Milliseconds limit) {
  if (!input_open()) refuse_input();
  co_return co_await send_input(queue_up(), std::move(bytes), limit);
}

void E2bProcess::open_input(std::string beginning, bool stays_open) {
  input_open_ = true;
  if (!beginning.empty()) {
    parts_.spawn("input",
                 [self = shared_from_this(), turn = queue_up(),
                  bytes = std::move(beginning)]() mutable -> awaitable<void> {
                   try {
                     co_await self->send_input(std::move(turn), std::move(bytes), std::nullopt);
                   } catch (const Error&) {
                     self->input_open_ = false;  // it has not read all, as programs may
                   }
                 });
  }
  if (!stays_open) close_input();
}

void E2bProcess::close_input() {
  if (!input_open_) return;
  if (!info_.terminal) input_open_ = false;
  parts_.spawn("close input",
               [self = shared_from_this(), turn = queue_up()]() mutable -> awaitable<void> {
                 const bool terminal = self->info_.terminal;
                 std::string last = terminal ? std::string(1, '\x04') : std::string{};
                 // After all that was written before.
                 co_await self->send_input(std::move(turn), std::move(last), std::nullopt);
                 if (terminal) co_return;
                 json::object request{{"process", self->selector()}};
                 co_await self->parts_.envd->call("process.Process/CloseStdin", std::move(request));
               });
}

// In its turn: what is typed afterwards finds the new size.
void E2bProcess::resize(unsigned rows, unsigned columns) {
  if (!info_.terminal) throw Error{Code::invalid, "the process has no terminal"};
  if (rows < 1 || rows > 65535 || columns < 1 || columns > 65535) {
    throw Error{Code::invalid, "a terminal has 1 to 65535 rows and columns"};
  }
  parts_.spawn(
      "resize", [self = shared_from_this(), turn = queue_up(), rows, columns]() -> awaitable<void> {
        co_await self->wait_turn(*turn);
        json::object size{{"rows", rows}, {"cols", columns}};
        json::object request{{"process", self->selector()}, {"pty", json::object{{"size", size}}}};
        co_await self->parts_.envd->call("process.Process/Update", std::move(request));
      });
}

}  // namespace tb::e2b

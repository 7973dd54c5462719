// SPDX-License-Identifier: Apache-2.0
#include "code/stopper.h"

#include <csignal>

namespace tb::code {
namespace {

// Between one step and the next.
constexpr Milliseconds kForAll = 500ms;  // os.system() and the like leave it to what they wait for
constexpr Milliseconds kPatience = 2s;

}  // namespace

Stopper::Stopper(boost::asio::any_io_executor executor, std::shared_ptr<sandbox::Process> process)
    : deadline_(executor), timer_(executor), process_(std::move(process)) {}

void Stopper::stop_after(Milliseconds limit) {
  deadline_.expires_after(limit);
  deadline_.async_wait([self = weak_from_this()](boost::system::error_code error) {
    const auto stopper = self.lock();
    if (error || !stopper || stopper->over_) return;
    stopper->timed_out_ = true;
    stopper->begin(true);
  });
}

void Stopper::over() {
  over_ = true;
  deadline_.cancel();
  timer_.cancel();
}

void Stopper::stop() {
  interrupted_ = true;
  begin(true);
}

void Stopper::interrupt() {
  interrupted_ = true;
  begin(false);
}

void Stopper::begin(bool forces) {
  if (over_) return;
  forces_ = forces_ || forces;
  steps_ = 0;
  step();
}

void Stopper::step() {
  if (process_->exit()) return;
  switch (steps_++) {
    case 0: process_->signal(SIGINT, false); return wait(kForAll);
    case 1:
      process_->signal(SIGINT, true);
      if (forces_) wait(kPatience);
      return;
    default: kill();
  }
}

void Stopper::kill() {
  if (over_) return;
  killed_ = true;
  process_->kill();
}

void Stopper::wait(Milliseconds pause) {
  timer_.expires_after(pause);
  timer_.async_wait([self = weak_from_this()](boost::system::error_code error) {
    const auto stopper = self.lock();
    if (!error && stopper && !stopper->over_) stopper->step();
  });
}

}  // namespace tb::code

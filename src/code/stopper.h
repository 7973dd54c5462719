// SPDX-License-Identifier: Apache-2.0
// Ends a call that takes too long, or that nobody wants any more, and leaves its interpreter alive
// if that is possible at all.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <memory>

#include "base/units.h"
#include "sandbox/sandbox.h"

namespace tb::code {

class Stopper : public std::enable_shared_from_this<Stopper> {
 public:
  Stopper(boost::asio::any_io_executor executor, std::shared_ptr<sandbox::Process> process);

  // From then on it is stopped.
  void stop_after(Milliseconds limit);
  // Interrupts the interpreter, then also what it has started; then kills it.
  void stop();
  // The same, but never by force.
  void interrupt();
  void kill();
  // The call is over: nothing happens any more.
  void over();

  bool timed_out() const { return timed_out_; }
  bool interrupted() const { return interrupted_; }
  bool killed() const { return killed_; }

 private:
  void begin(bool forces);
  void step();
  void wait(Milliseconds pause);

  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer timer_;  // to the next step
  std::shared_ptr<sandbox::Process> process_;
  int steps_ = 0;
  bool over_ = false;
  bool forces_ = false;
  bool timed_out_ = false;
  bool interrupted_ = false;
  bool killed_ = false;
};

}  // namespace tb::code

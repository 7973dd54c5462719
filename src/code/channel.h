// SPDX-License-Identifier: Apache-2.0
// An interpreter that runs in a sandbox, as the other end of its pipes. It sends only while it is
// at work on a request, and never more than it was told to have arrived: whoever keeps what a
// process prints need not keep much.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/async.h"
#include "base/nudge.h"
#include "base/units.h"
#include "code/wire.h"
#include "sandbox/sandbox.h"

namespace tb::code {

class Channel {
 public:
  explicit Channel(std::shared_ptr<sandbox::Process> process);

  const std::shared_ptr<sandbox::Process>& process() const { return process_; }
  bool alive() const { return !process_->exit(); }

  awaitable<void> send(std::vector<std::string> fields);
  // Of a silence, if nothing comes for so long or `wake` says so; empty when it has ended and all
  // was read. Throws Broken.
  awaitable<std::optional<Frame>> next(Milliseconds patience, Nudge* wake = nullptr);
  // Of one that an earlier server, or nobody, has spoken to: waits until it is at work on nothing,
  // and returns for whom it worked. Empty when that did not come in time.
  awaitable<std::optional<std::string>> sync(Milliseconds limit);

 private:
  bool fill();
  std::string read_stray();
  awaitable<void> acknowledge();
  awaitable<bool> changed(Nudge* wake);
  awaitable<bool> find_mark(std::string mark, std::shared_ptr<std::string> answer);

  std::shared_ptr<sandbox::Process> process_;
  Frames frames_;
  std::uint64_t offset_ = 0;  // of its stdout
  std::uint64_t acknowledged_ = 0;
  std::uint64_t stray_ = 0;  // bytes of its stderr
};

}  // namespace tb::code

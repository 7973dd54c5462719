// SPDX-License-Identifier: Apache-2.0
// When to start a shell ahead of its command.
#pragma once

namespace tb::guest {

// A shell that is started ahead costs a little more than one that is not. Where the processors have
// more to do than they can, that would be taken from others.
class Processors {
 public:
  Processors();
  // Whether far more want to run than can, right now.
  bool busy() const;

 private:
  int load_;
  int count_;
};

}  // namespace tb::guest

// SPDX-License-Identifier: Apache-2.0
// Where a carrier reaches us without the engine in between, if the engine shows it a directory of
// this machine: each word through the engine wakes two programs more, each way.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <string>

#include "base/async.h"
#include "base/units.h"
#include "os/fd.h"

namespace tb::docker {

class Door {
 public:
  // A socket in `dir`, which nobody can list. It is not open if that fails, or `dir` is empty.
  Door(asio::any_io_executor executor, const std::string& dir);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  // Both are told to the carrier alone. Empty: not open.
  const std::string& name() const { return name_; }
  const std::string& token() const { return token_; }

  // Who came with the token; none: something can be read from `instead`, or nobody came for so
  // long.
  awaitable<os::Fd> admit(int instead, Milliseconds limit);

 private:
  awaitable<os::Fd> check(os::Fd socket);

  asio::any_io_executor executor_;
  os::Fd dir_;
  os::Fd listener_;
  std::string name_;
  std::string token_;
};

}  // namespace tb::docker

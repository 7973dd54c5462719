// SPDX-License-Identifier: Apache-2.0
// A server of its own for the benchmark, and the plainest client there is: one kept connection,
// blocking calls, nothing that could hide in the figures.
#pragma once

#include <sys/types.h>

#include <string>

#include "config.h"
#include "os/fd.h"

namespace tb::cli {

class BenchServer {
 public:
  // Starts `threadbox serve` on a free port with these settings and waits until it answers.
  BenchServer(const Config& config, std::size_t pool, unsigned cpu_quota);
  ~BenchServer();
  BenchServer(const BenchServer&) = delete;
  BenchServer& operator=(const BenchServer&) = delete;
  std::uint16_t port() const { return port_; }

 private:
  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
};

class BenchClient {
 public:
  explicit BenchClient(std::uint16_t port);
  // The body of a 200; throws Error on any other status.
  std::string post(const std::string& path, const std::string& body);
  std::string get(const std::string& path);

 private:
  std::string exchange(const std::string& request);
  os::Fd socket_;
};

// The value of "name":"…" in a flat JSON answer.
std::string text_field(const std::string& json, const std::string& name);

}  // namespace tb::cli

// SPDX-License-Identifier: Apache-2.0
// A server of its own for the benchmark, and the plainest client there is: one kept connection,
// blocking calls, nothing that could hide in the figures.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "config.h"
#include "os/fd.h"

namespace tb::cli {

class BenchServer {
 public:
  // Starts `threadbox serve` on a free port with these settings and waits until it answers. Its
  // policy is the default one, strict: what that costs is in the figures.
  // `more` are settings beside those, as NAME=value.
  BenchServer(const Config& config, std::size_t pool, unsigned cpu_quota,
              const std::vector<std::string>& more = {});
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
  // Goes with every get() and post() from now on.
  void use_credential(const std::string& text) {
    credential_ = "Authorization: Bearer " + text + "\r\n";
  }
  // The body of a 200 or 201; throws Error on any other status.
  std::string post(const std::string& path, const std::string& body);
  std::string get(const std::string& path);

  std::string create_session();  // its id
  void cleanup(const std::string& session);
  void wait_for_pool(std::size_t size);
  // Both throw when the file is not as large as it should be.
  void upload(const std::string& session, const std::string& name, std::string_view content);
  void download(const std::string& session, const std::string& name, std::uint64_t size);

  // The halves of a request, for those who wait on many connections.
  void send_post(const std::string& path, const std::string& body);
  std::string receive();
  int descriptor() const { return socket_.get(); }

  // For answers that go on.
  void send(std::string_view bytes);
  std::size_t read_some(char* buffer, std::size_t room);
  // Returns the length of the body, 0 when it is not told; what has come of it is in `rest`.
  std::uint64_t read_head(std::string& rest, std::string_view status = "200",
                          std::string* head = nullptr);

 private:
  os::Fd socket_;
  std::string credential_;  // a line of the head, or nothing
};

}  // namespace tb::cli

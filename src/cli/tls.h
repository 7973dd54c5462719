// SPDX-License-Identifier: Apache-2.0
// https on the server's port: its files, read at the start, on SIGHUP and when they have changed.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/async.h"
#include "config.h"
#include "http/secure_layer.h"
#include "net/server_tls.h"
#include "session/metrics.h"

namespace tb::cli {

class PortTls {
 public:
  // Reads the files, with the rights that there are now. Null: the settings want no TLS. Throws
  // Error{invalid} that names the setting.
  static std::unique_ptr<PortTls> read(const Config& config);

  // With the rights that are left: counts, if not null, and looks after the files from now on.
  void watch(asio::any_io_executor executor, session::Metrics* metrics);
  // What the files hold now; if anything is wrong with it, all stays as it was.
  void reload();
  http::Secure secure();
  awaitable<void> close();

 private:
  // What changes when a file is written or replaced; also one that a link leads to.
  struct Stamp {
    unsigned long device = 0, inode = 0;
    long long size = -1, seconds = 0, nanoseconds = 0;
    bool operator==(const Stamp&) const = default;
  };
  using Stamps = std::array<Stamp, 3>;

  explicit PortTls(const TlsConfig& config);
  Stamps look() const;
  void tell_rights() const;
  void tell_loaded(const char* event) const;
  awaitable<void> follow(asio::any_io_executor executor);

  const TlsConfig& config_;
  Stamps loaded_;  // of what was tried last
  net::ServerTls tls_;
  std::unique_ptr<TaskGroup> tasks_;
};

}  // namespace tb::cli

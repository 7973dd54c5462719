// SPDX-License-Identifier: Apache-2.0
// Where the keys for tokens come from: a secret, a file, a URL. A file is read again when it
// changes; a URL every ten minutes, and when a token names a key that is not known, at most twice a
// minute. What can't be read leaves the keys that there are. Used from one thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "auth/jwk.h"
#include "auth/jwt.h"
#include "base/async.h"
#include "net/client.h"

namespace tb::auth {

struct JwksSettings {
  std::string secret;       // of HS256; empty: none
  std::string file;         // empty: none
  std::string url;          // empty: none
  std::string authorities;  // PEM, to trust for the URL; empty: the system's
};

class Jwks {
 public:
  // Throws Error{invalid} when the file can't be read or is wrong.
  Jwks(asio::any_io_executor executor, JwksSettings settings);

  // Begins to read the URL.
  void open();
  awaitable<void> close() { return tasks_.close(); }

  // One of the keys signed it. A key serves for one algorithm, and the token's `kid` must be its
  // own if both have one.
  bool verify(const ParsedJwt& token) const;
  // For a token that no key signed: asks the URL if that may have another. True: there are other
  // keys now.
  awaitable<bool> look_again(const std::string& key_id);
  // Looks whether the file has changed, if the last look was long enough ago.
  void refresh(std::chrono::steady_clock::time_point now);
  // Another number when the keys are others.
  unsigned generation() const { return generation_; }

 private:
  using Clock = std::chrono::steady_clock;
  void read_file();
  awaitable<void> read_url();
  awaitable<std::string> fetch();
  awaitable<void> read_often();

  const JwksSettings settings_;
  asio::any_io_executor executor_;
  std::unique_ptr<net::Client> client_;  // null: there is no URL
  KeySet fixed_;
  KeySet of_file_;
  KeySet of_url_;
  std::string text_;          // that of_url_ was read from
  std::int64_t changed_ = 0;  // of the file, nanoseconds
  Clock::time_point looked_ = {};
  Clock::time_point fetched_ = {};
  bool fetching_ = false;
  Signal done_;
  unsigned generation_ = 0;
  TaskGroup tasks_;
};

}  // namespace tb::auth

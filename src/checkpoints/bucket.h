// SPDX-License-Identifier: Apache-2.0
// Objects in a bucket of S3, or of what speaks its protocol.
#pragma once

#include "checkpoints/objects.h"
#include "checkpoints/signing.h"
#include "net/client.h"

namespace tb::checkpoints {

class Bucket final : public Objects {
 public:
  struct Settings {
    std::string endpoint;  // https://host[:port]; the bucket is the first part of the path
    std::string bucket;
    std::string prefix;  // of all keys; empty or ends with a slash
    Signer signer;
    std::string authorities;  // PEM; empty: the system's
  };
  // Throws Error{invalid} for an endpoint that is none.
  Bucket(asio::any_io_executor executor, Settings settings);

  awaitable<void> put(std::string key, std::string bytes) override;
  awaitable<std::optional<std::string>> get(std::string key) override;
  awaitable<std::vector<std::string>> list(std::string prefix) override;
  awaitable<void> remove(std::string key) override;

 private:
  struct Reply {
    int status = 0;
    std::string body;
  };
  awaitable<Reply> ask(std::string method, std::string key, std::string query, std::string body);
  awaitable<Reply> ask_once(std::string method, std::string key, std::string query,
                            std::string body);

  const Settings settings_;
  net::Client client_;
};

// The texts of all elements with this name, in their order; entities are resolved. Exposed for the
// tests.
std::vector<std::string> elements(std::string_view xml, const std::string& name);

}  // namespace tb::checkpoints

// SPDX-License-Identifier: Apache-2.0
// E2B's control plane: sandboxes are made, found, kept alive and ended here.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "e2b/json.h"
#include "net/client.h"

namespace tb::e2b {

struct ApiSettings {
  std::string key;
  std::string url;          // of the control plane; empty: api. and the domain
  std::string sandbox_url;  // of all sandboxes; empty: each has a host
  std::string domain = "e2b.app";
};

// A sandbox as the control plane tells of it.
struct Machine {
  std::string id;
  std::string token;   // that it wants to see
  std::string domain;  // empty: the settings'
};

struct Listed {
  std::string machine;
  std::string session;  // ours, of the metadata
};

// How long to wait before `attempt` (from 1) after an answer with `status` (0: the request never
// left) and this Retry-After; empty: not at all.
std::optional<Milliseconds> pause_before(unsigned attempt, int status, bool repeatable,
                                         const std::string* retry_after);

class Api {
 public:
  Api(asio::any_io_executor executor, net::Client& client, ApiSettings settings);

  // `tag` names this server among all that use the key, `session` the sandbox among its own. All
  // throw Error that says what to do.
  awaitable<Machine> create(std::string from_template, std::string tag, std::string session,
                            std::chrono::seconds timeout, bool internet);
  // Empty: it is gone. Its time is made longer, never shorter.
  awaitable<std::optional<Machine>> connect(std::string id, std::chrono::seconds timeout);
  // False: it is gone.
  awaitable<bool> keep_alive(std::string id, std::chrono::seconds timeout);
  // Gone already is fine.
  awaitable<void> kill(std::string id);
  awaitable<std::vector<Listed>> list(std::string tag);

  // Where the sandbox itself answers.
  net::Url url_of(const Machine& machine) const;
  // Why nothing can be made right now: the key was refused a moment ago. Empty: nothing is known.
  std::string problem() const;

 private:
  struct Reply {
    int status = 0;
    std::string body;
    std::string next;  // of a list: where it goes on
  };
  awaitable<Reply> call(std::string method, std::string path, json::object body, bool repeatable);
  awaitable<Reply> attempt(const net::Ask& ask, std::optional<Milliseconds>& pause,
                           unsigned number);
  Error refusal(const Reply& reply, const std::string& doing);
  static Machine to_machine(const Reply& reply);

  asio::any_io_executor executor_;
  net::Client& client_;
  ApiSettings settings_;
  std::string base_;
  std::string refused_;
  std::chrono::steady_clock::time_point refused_at_;
};

}  // namespace tb::e2b

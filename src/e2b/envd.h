// SPDX-License-Identifier: Apache-2.0
// What answers inside of a sandbox: calls and streams of the Connect protocol, and files.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "e2b/frames.h"
#include "e2b/json.h"
#include "net/client.h"

namespace tb::e2b {

// The sandbox is not there any more; its session is over.
class Gone : public Error {
 public:
  Gone() : Error(Code::not_found, "The sandbox is gone: E2B has ended it. Create a new session") {}
};

// It answered with an error of the protocol.
class CallError : public Error {
 public:
  CallError(std::string name, const std::string& message);
  const std::string& name() const { return name_; }  // not_found, invalid_argument, …

 private:
  std::string name_;
};

// Messages of a stream, as they come.
class Events {
 public:
  explicit Events(std::unique_ptr<net::Answer> answer) : answer_(std::move(answer)) {}
  // Empty: it ended in order. Throws CallError when it ended with one, Error{unavailable} when it
  // was cut off or is none.
  awaitable<std::optional<json::object>> next();

 private:
  std::unique_ptr<net::Answer> answer_;
  Frames frames_;
};

class Envd {
 public:
  Envd(net::Client& client, net::Url base, std::string machine, std::string token);

  // Called once, when it is known to be gone.
  void on_gone(std::function<void()> callback) { gone_ = std::move(callback); }

  // `method` as in "process.Process/List"; `user` empty: the template's own. `limit`: for the
  // answer. Throws CallError, Gone, Error{unavailable}.
  awaitable<json::object> call(std::string method, json::object request, std::string user = {},
                               Milliseconds limit = 30s);
  awaitable<std::unique_ptr<Events>> open(std::string method, json::object request,
                                          std::string user = {});
  // Bytes of a file from `offset` on.
  awaitable<std::unique_ptr<net::Answer>> read_file(std::string path, std::uint64_t offset);
  // Makes or replaces a file of `length` bytes, which `next` gives. With parents.
  awaitable<void> write_file(std::string path, std::uint64_t length,
                             std::function<awaitable<std::string>()> next);
  // Throws Gone; false: it does not answer right now.
  awaitable<bool> healthy();

 private:
  net::Ask ask(std::string method, std::string target, const std::string& user) const;
  awaitable<void> refuse(net::Answer& answer);

  net::Client& client_;
  net::Url base_;
  std::string machine_;
  std::string token_;
  std::function<void()> gone_;
};

}  // namespace tb::e2b

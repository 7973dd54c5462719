// SPDX-License-Identifier: Apache-2.0
// What the operations on files have in common.
#pragma once

#include "embed/operations.h"

namespace tb::embed {

// A path as clients give it, relative to the workspace; empty: the workspace itself. Throws
// FileError{bad_name}.
std::string any_path(const std::string& name);
// The same, but not the workspace itself.
std::string path_below(const std::string& name);
// Permissions alone. Throws Error{invalid}.
void check_mode(std::optional<unsigned> mode);

// A session at work: meanwhile its sandbox is not passed to another program. Looking is no
// activity.
enum class Purpose { look, use };
class Work {
 public:
  Work(std::shared_ptr<session::Session> session, session::Use use)
      : session_(std::move(session)), busy_(*session_), use_(std::move(use)) {}
  sandbox::Files& files() const { return use_.sandbox().files(); }
  session::Who who() const { return session_->who(); }
  Milliseconds took() const {
    return std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - began_);
  }

 private:
  std::shared_ptr<session::Session> session_;
  session::Busy busy_;
  session::Use use_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};
awaitable<std::unique_ptr<Work>> work_on(CoreRef core, std::string id, Purpose purpose);

}  // namespace tb::embed

// SPDX-License-Identifier: Apache-2.0
// Files that outlive their session: what somebody chose to keep, and what code produced. Each is a
// file with a description beside it; without the description it is not there, so a half one never
// is. Bounded in bytes, in number and in age; each counts as 4 KiB more than it has, so that empty
// ones are not for nothing.
//
//   <dir>/session_<session>/<id>        the bytes
//   <dir>/session_<session>/<id>.json   what they are
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/async.h"
#include "base/error.h"
#include "base/units.h"
#include "os/fd.h"
#include "sandbox/files.h"

namespace tb::storage {

using WallTime = std::chrono::system_clock::time_point;

struct Artifact {
  std::string id;
  std::string session;
  std::string thread;
  std::string user;
  std::string name;    // for people; never a path of ours
  std::string type;    // a media type
  std::string source;  // where it was in the session; empty: it was no file there
  std::string origin;  // "kept", or "code"
  Bytes size = {};
  WallTime created = {};
  std::string tenant = {};  // whose it is; empty: the default tenant's
};

struct ArtifactLimits {
  Bytes per_session = 256_MiB;
  Bytes in_all = 10_GiB;
  std::size_t count = 1000;  // of a session
  std::size_t count_in_all = 100'000;
  std::chrono::hours age{30 * 24};
};

// There is no room for it: what is full, and what to do.
class ArtifactsFull : public Error {
 public:
  explicit ArtifactsFull(const std::string& text) : Error(Code::exhausted, text) {}
};

// "application/octet-stream" when the name does not tell.
std::string media_type_of(std::string_view name);

class Artifacts {
 public:
  // `dir` is made when missing. What a server that died left half is removed.
  Artifacts(asio::any_io_executor executor, std::string dir, ArtifactLimits limits);

  // Begins to remove what is too old, now and every hour.
  void open();
  awaitable<void> close() { return tasks_.close(); }

  // `like` has everything but id, size and time. Bytes that are at hand:
  awaitable<Artifact> keep(Artifact like, std::string bytes);
  // A file of a sandbox, piece by piece.
  awaitable<Artifact> keep(Artifact like, sandbox::OpenFile& file);

  std::optional<Artifact> find(const std::string& id) const;
  // Throws Error{not_found}.
  Artifact get(const std::string& id) const;
  // The newest first; of a session or a user, or of any of the tenant's when that is empty.
  std::vector<Artifact> list(const std::string& tenant, const std::string& session,
                             const std::string& user = {}) const;
  awaitable<std::unique_ptr<sandbox::OpenFile>> read(std::string id);
  awaitable<void> remove(std::string id);
  // Those that the session kept of the same file, in the same way, before this one.
  void forget_earlier(const Artifact& kept);
  // Returns how many.
  std::size_t expire(WallTime now);

  // With what each takes beside its bytes.
  Bytes used() const { return used_; }
  std::size_t count() const { return artifacts_.size(); }

 private:
  class Writing;
  class Reading;
  struct Held {
    Bytes bytes;
    std::size_t count = 0;
  };
  void load();
  void load_session(const std::string& path, const std::string& session);
  void check_room(const Held& held, Bytes more) const;
  void reserve_one(const std::string& session);
  void reserve(const std::string& session, Bytes more);
  void release(const std::string& session, Bytes size);
  std::string path_of(const Artifact& artifact) const;
  void add(Artifact artifact);
  void erase(const std::string& id);
  awaitable<void> sweep();

  asio::any_io_executor executor_;
  const std::string dir_;
  const ArtifactLimits limits_;
  std::map<std::string, Artifact> artifacts_;  // by id
  std::map<std::string, Held> sessions_;       // with what is being written
  Bytes used_;
  std::size_t writing_ = 0;
  asio::thread_pool disk_{1};
  TaskGroup tasks_;
};

}  // namespace tb::storage

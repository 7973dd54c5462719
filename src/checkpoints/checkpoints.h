// SPDX-License-Identifier: Apache-2.0
// Keeps the workspaces of threads in Objects: soon after something was done in them, and only what
// has changed since the last time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/async.h"
#include "base/units.h"
#include "checkpoints/manifest.h"
#include "checkpoints/objects.h"
#include "sandbox/files.h"
#include "session/sessions.h"
#include "session/workspaces.h"

namespace tb::checkpoints {

class Checkpoints final : public session::Workspaces {
 public:
  struct Settings {
    Milliseconds delay = 2s;     // of quiet, before files are kept
    Milliseconds longest = 30s;  // that changed files wait, whatever goes on
    Milliseconds last = 10s;     // for what is left when the server ends
    std::size_t part = 8 << 20;
    std::size_t layers = 16;  // then all is kept anew
    std::size_t at_once = 4;
  };
  Checkpoints(asio::any_io_executor executor, std::unique_ptr<Objects> objects, Settings settings);

  void open(session::Sessions& sessions);
  // Keeps what has changed, as far as there is time.
  awaitable<void> close();

  void changed(const std::shared_ptr<session::Session>& session) override;
  awaitable<std::optional<session::WallTime>> restore(
      std::shared_ptr<session::Session> session) override;
  void forget(const session::Session& session) override;

  struct Totals {
    std::uint64_t kept = 0;  // checkpoints
    std::uint64_t bytes = 0;
    std::uint64_t failed = 0;
    std::uint64_t restored = 0;
    std::size_t waiting = 0;  // sessions whose files have changed since
  };
  Totals totals() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Held = std::shared_ptr<session::Session>;
  // A file as it was when it was kept.
  struct Seen {
    sandbox::FileType type = sandbox::FileType::file;
    unsigned mode = 0;
    std::uint64_t size = 0;
    std::chrono::system_clock::time_point modified;
    bool operator==(const Seen&) const = default;
  };
  using Tree = std::map<std::string, Seen>;
  // What is known of a session.
  struct Kept {
    std::weak_ptr<session::Session> session;
    bool dirty = false;
    bool at_work = false;
    Clock::time_point dirty_since;
    Clock::time_point last_change;
    Clock::time_point not_before;  // after a failure
    std::uint64_t generation = 0;  // of the thread's claim that `manifest` is of
    std::uint64_t number = 0;
    Manifest manifest;
    Tree tree;
  };
  // What is to be kept now.
  struct Change {
    bool all = false;
    std::vector<std::string> paths;
    std::vector<std::string> gone;
    bool empty() const { return !all && paths.empty() && gone.empty(); }
  };

  awaitable<void> look_around();
  void mark_those_at_work();
  bool due(const Kept& kept, Clock::time_point now) const;
  void begin(const std::string& id, Kept& kept);
  awaitable<void> keep(std::string id);
  awaitable<void> keep_now(Held session, Kept& kept);
  static awaitable<Tree> read_tree(sandbox::Files& files);
  Change compare(const Kept& kept, const Tree& now) const;
  awaitable<Layer> put_layer(sandbox::Files& files, const std::string& prefix, std::uint64_t number,
                             const Change& change);
  awaitable<void> clear(std::string thread, std::uint64_t generation, std::uint64_t from);
  awaitable<void> clear_all(std::string thread, std::uint64_t generation);
  awaitable<void> unpack(sandbox::Files& files, std::string prefix, Layer layer);

  asio::any_io_executor executor_;
  std::unique_ptr<Objects> objects_;
  const Settings settings_;
  session::Sessions* sessions_ = nullptr;
  std::map<std::string, std::shared_ptr<Kept>> kept_;  // by session
  std::size_t at_work_ = 0;
  Totals totals_;
  Clock::time_point looked_;
  Signal done_;
  TaskGroup tasks_;
};

}  // namespace tb::checkpoints

// SPDX-License-Identifier: Apache-2.0
// All names below a directory in the order of their paths, part by part, with an end to everything:
// links are shown and not followed, what is too deep or too much is left out and said.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>
#include <vector>

#include "guest/names.h"

namespace tb::guest::files {

struct Visit {
  const std::string& path;  // from where the walk began
  const char* name;         // its last part
  int directory;            // that has the name
  const struct stat& info;
  std::size_t depth;  // 0: in the directory where the walk began
};

enum class Next { below, beside, stop };  // a directory's names come next, or not

class Walk {
 public:
  static constexpr std::size_t kDepth = 200;           // directories open at once
  static constexpr std::size_t kHeld = 250000;         // names in memory
  static constexpr std::size_t kHeldBytes = 16 << 20;  // in them
  static constexpr std::uint64_t kLookedAt = 2000000;  // names in all

  // Only names below `directory` itself when not `recursive`; only what comes after the path
  // `after`, if there is one.
  Walk(int directory, bool recursive, std::string after = {})
      : top_(directory), recursive_(recursive), after_(std::move(after)) {}

  // Calls `take` for each. False: the directory can't be read, errno says why.
  bool run(const std::function<Next(const Visit&)>& take);
  // Nothing was left out, but for what `take` did not want.
  bool complete() const { return !cut_ && !unreadable_; }
  // It was too deep or too much.
  bool cut() const { return cut_; }

 private:
  struct Level {
    File directory;
    std::vector<std::string> names;  // backwards: the next one is the last
    std::size_t path_size;           // of the directory's own path, with its slash
    std::size_t bytes;               // in the names
  };
  bool enter(int directory, const char* name);
  void leave();
  bool read_names(int directory, Level& level);
  bool comes_after(const std::string& path) const;
  bool may_have_after(const std::string& path) const;

  int top_;
  bool recursive_;
  std::string after_;
  std::string path_;
  std::vector<Level> levels_;
  std::size_t held_ = 0;
  std::size_t held_bytes_ = 0;
  std::uint64_t seen_ = 0;
  bool cut_ = false;
  bool unreadable_ = false;
};

}  // namespace tb::guest::files

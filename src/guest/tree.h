// SPDX-License-Identifier: Apache-2.0
// Looking at a tree that its owner may be changing at the same time: by descriptor, following no
// link out of it, with an end to every walk.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <functional>
#include <string>

#include "guest/files_wire.h"

namespace tb::guest::files {

// openat2(2) that stays below `directory` on one file system. Links that stay inside are followed,
// unless `more` forbids them.
int open_beneath(int directory, const std::string& path, int flags, mode_t mode = 0,
                 std::uint64_t more = 0);
// As O_PATH; empty means `root` itself.
int open_directory(int root, const std::string& path);

Entry describe(const std::string& name, const struct stat& info);

// Calls `take` for every name but . and .. until it says false. False: there were more than `most`.
bool each_entry(int directory, std::uint64_t most, const std::function<bool(Entry)>& take);

// The name in `directory` that a listing shows as `shown`; empty: none.
std::string name_shown_as(int directory, const std::string& shown);

struct Tally {
  std::uint64_t files = 0;  // regular ones
  std::uint64_t bytes = 0;
  bool complete = true;  // else it was too deep or too much to look at
};
Tally tally_tree(int root, std::uint64_t most);

}  // namespace tb::guest::files

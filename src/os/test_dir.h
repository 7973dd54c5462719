// SPDX-License-Identifier: Apache-2.0
// For tests: a directory of their own that goes with them; in memory where that is possible, so
// that a busy disk does not make them slow.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"

namespace tb::os {

class TestDir {
 public:
  TestDir() : path_(parent() + "/tb-test-XXXXXX") { TB_ASSERT(::mkdtemp(path_.data()) != nullptr); }
  ~TestDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestDir(const TestDir&) = delete;
  TestDir& operator=(const TestDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  static std::string parent() {
    const char* memory = "/dev/shm";
    if (::access(memory, W_OK | X_OK) == 0) return memory;
    return std::filesystem::temp_directory_path();
  }

  std::string path_;
};

}  // namespace tb::os

// SPDX-License-Identifier: Apache-2.0
#include "guest/names.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "os/test_dir.h"

namespace tb::guest::files {
namespace {

namespace fs = std::filesystem;

class NamesTest : public testing::Test {
 protected:
  NamesTest() {
    directory = File{::open(top.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    std::ofstream{top / "taken"} << "old";
    fs::create_directory(top / "other");
    std::ofstream{top / "other" / "inside"} << "kept";
  }

  File nameless(const std::string& text) const {
    File made{::open(top.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kFileMode)};
    EXPECT_EQ(::write(made.fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    return made;
  }
  bool swap_names() const {
    return ::renameat2(directory.fd, "taken", directory.fd, "other", RENAME_EXCHANGE) == 0;
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator{top}) found.insert(entry.path().filename());
    return found;
  }

  os::TestDir place;
  const fs::path top = place.path();
  File directory;
};

TEST_F(NamesTest, AFileIsReplacedAndADirectoryIsNot) {
  const File made = nameless("new");
  EXPECT_TRUE(give_name(made.fd, directory.fd, "taken", true));
  EXPECT_FALSE(give_name(made.fd, directory.fd, "other", true));
  EXPECT_EQ(errno, EISDIR);
  EXPECT_EQ(names(), (std::set<std::string>{"other", "taken"}));
  EXPECT_EQ(fs::file_size(top / "taken"), 3U);
}

// A directory may come to the name at any moment, also between a look and the exchange: it goes
// back to where it was, and nothing is left of the attempt.
TEST_F(NamesTest, ADirectoryThatAppearsMeanwhileIsNeverLost) {
  std::atomic<bool> done = false;
  std::atomic<unsigned> swaps = 0;
  std::thread rival{[&] {
    while (!done) swaps += swap_names() ? 1 : 0;
  }};
  unsigned put = 0;
  unsigned refused = 0;
  for (int i = 0; i < 20000 || put == 0 || refused == 0; ++i) {
    const File made = nameless("new");
    const bool given = give_name(made.fd, directory.fd, "taken", true);
    if (!given) EXPECT_EQ(errno, EISDIR);
    ++(given ? put : refused);
  }
  done = true;
  rival.join();
  EXPECT_GT(swaps, 0U);
  EXPECT_EQ(names(), (std::set<std::string>{"other", "taken"}));
  EXPECT_TRUE(fs::exists(top / "other/inside") || fs::exists(top / "taken/inside"));
}

}  // namespace
}  // namespace tb::guest::files

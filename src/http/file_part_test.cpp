// SPDX-License-Identifier: Apache-2.0
#include "http/file_part.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "http/exchange.h"

namespace tb::http {
namespace {

class FilePartTest : public testing::Test {
 protected:
  FilePartTest() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    file = ::memfd_create("test", MFD_CLOEXEC);
    for (int i = 0; i < 300000; ++i) content += static_cast<char>('a' + i % 23);
    EXPECT_EQ(::write(file, content.data(), content.size()), static_cast<ssize_t>(content.size()));
  }
  ~FilePartTest() override {
    ::close(ends[0]);
    ::close(ends[1]);
    ::close(file);
  }
  std::string receive() const {
    std::string got(1000000, '\0');
    const ssize_t n = ::read(ends[1], got.data(), got.size());
    got.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return got;
  }

  int ends[2] = {-1, -1};
  int file = -1;
  std::string content;
};

TEST_F(FilePartTest, ArrivesBetweenItsHeadAndTailHoweverSlowlyItIsRead) {
  FileBytes bytes{"<", file, 5, content.size() - 10, ">"};
  std::string got;
  bool waited = false;
  while (!push_file(ends[0], bytes)) {
    waited = true;
    got += receive();
  }
  got += receive();
  EXPECT_TRUE(waited);
  EXPECT_EQ(got, "<" + content.substr(5, content.size() - 10) + ">");
}

TEST_F(FilePartTest, AReaderThatLeftIsToldAndNoSignal) {
  ::shutdown(ends[1], SHUT_RDWR);
  FileBytes bytes{"", file, 0, 100, ""};
  EXPECT_THROW(push_file(ends[0], bytes), Disconnected);
}

TEST_F(FilePartTest, AFileThatIsTooShortEndsTheConnection) {
  FileBytes bytes{"", file, content.size() - 3, 10, ""};
  EXPECT_THROW(push_file(ends[0], bytes), Disconnected);
}

}  // namespace
}  // namespace tb::http

// SPDX-License-Identifier: Apache-2.0
// The file helper on a real tree, without a sandbox around it.
#include "guest/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "guest/files_wire.h"
#include "guest/names.h"
#include "guest/tree.h"
#include "os/fd.h"
#include "os/fdpass.h"

namespace tb::guest::files {
namespace {

namespace fs = std::filesystem;

struct Reply {
  Answer answer;
  os::Fd fd;
};

class FileHelper : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tb-files-XXXXXX";
    top_ = ::mkdtemp(name);
    root_ = top_ / "workspace";
    fs::create_directories(root_);
    write(top_ / "secret", "secret");
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    ours_ = os::Fd{ends[0]};
    helper_ = std::thread{[this, theirs = ends[1]] {
      const os::Fd socket{theirs};
      const os::Fd root{::open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
      serve(root.get(), socket.get());
    }};
  }
  void TearDown() override {
    ours_.reset();
    helper_.join();
    fs::remove_all(top_);
  }

  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream{path} << text;
  }
  static std::string read(const fs::path& path) {
    std::ifstream in{path};
    return {std::istreambuf_iterator<char>{in}, {}};
  }
  static std::string content(const os::Fd& fd) {
    char buffer[256];
    const ssize_t n = ::pread(fd.get(), buffer, sizeof buffer, 0);
    return {buffer, n > 0 ? static_cast<std::size_t>(n) : 0};
  }

  Reply receive() {
    static char buffer[os::kMaxPacket];
    os::Packet packet{buffer, sizeof buffer};
    Reply reply;
    pollfd poll{ours_.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&poll, 1, 60000), 1);
    EXPECT_EQ(os::receive_packet(ours_.get(), packet), 1);
    if (packet.fd_count > 0) reply.fd = os::Fd{packet.fds[0]};
    EXPECT_TRUE(Answer::decode({packet.data, packet.size}, reply.answer));
    return reply;
  }
  Reply ask(Message type, const std::string& path = {}, std::uint64_t most = 1000) {
    Request request;
    request.type = type;
    request.path = path;
    request.most = most;
    EXPECT_EQ(os::send_packet(ours_.get(), request.encode()), 1);
    return receive();
  }
  Reason refusal(Message type, const std::string& path) {
    const Reply reply = ask(type, path);
    EXPECT_EQ(reply.answer.type, Message::refused) << path;
    EXPECT_FALSE(reply.fd);
    return reply.answer.reason;
  }
  Reply upload(const std::string& path, const std::string& text) {
    const Reply created = ask(Message::create);
    EXPECT_EQ(::write(created.fd.get(), text.data(), text.size()), ssize_t(text.size()));
    return ask(Message::commit, path);
  }

  fs::path top_;
  fs::path root_;
  os::Fd ours_;
  std::thread helper_;
};

TEST_F(FileHelper, OpensAFile) {
  write(root_ / "sub/a.txt", "hello");
  const Reply reply = ask(Message::open, "sub/a.txt");
  ASSERT_EQ(reply.answer.type, Message::opened);
  EXPECT_EQ(content(reply.fd), "hello");
  EXPECT_EQ(reply.answer.entries.at(0).size, 5u);
  EXPECT_EQ(reply.answer.entries.at(0).name, "a.txt");
}

TEST_F(FileHelper, FollowsLinksThatStayInside) {
  write(root_ / "v1/a.txt", "hello");
  fs::create_symlink("v1", root_ / "current");
  EXPECT_EQ(content(ask(Message::open, "current/a.txt").fd), "hello");
}

TEST_F(FileHelper, F03RefusesLinksThatLeadOut) {
  fs::create_symlink("/etc/passwd", root_ / "absolute");
  fs::create_symlink("../secret", root_ / "relative");
  fs::create_symlink("/proc/self/fd/0", root_ / "magic");
  EXPECT_EQ(refusal(Message::open, "absolute"), Reason::outside);
  EXPECT_EQ(refusal(Message::open, "relative"), Reason::outside);
  EXPECT_EQ(refusal(Message::open, "magic"), Reason::outside);
  EXPECT_EQ(refusal(Message::open, "../secret"), Reason::outside);
  EXPECT_EQ(refusal(Message::open, "/etc/passwd"), Reason::outside);
}

TEST_F(FileHelper, F04RefusesLoops) {
  fs::create_symlink("b", root_ / "a");
  fs::create_symlink("a", root_ / "b");
  EXPECT_EQ(refusal(Message::open, "a"), Reason::outside);
}

TEST_F(FileHelper, F08RefusesWhatIsNoFile) {
  ASSERT_EQ(::mkfifo((root_ / "fifo").c_str(), 0644), 0);
  fs::create_directories(root_ / "dir");
  const os::Fd socket{::socket(AF_UNIX, SOCK_STREAM, 0)};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", (root_ / "socket").c_str());
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(refusal(Message::open, "fifo"), Reason::not_regular);
  EXPECT_EQ(refusal(Message::open, "dir"), Reason::not_regular);
  EXPECT_EQ(refusal(Message::open, "socket"), Reason::not_regular);
  for (const char* name : {"fifo", "dir", "socket"}) {
    const Reply reply = upload(name, "x");
    EXPECT_EQ(reply.answer.reason, Reason::not_regular) << name;
  }
}

TEST_F(FileHelper, NamesAFileOnlyWhenItIsComplete) {
  const Reply created = ask(Message::create);
  ASSERT_EQ(created.answer.type, Message::opened);
  EXPECT_TRUE(fs::is_empty(root_));
  ASSERT_EQ(::write(created.fd.get(), "new", 3), 3);
  const Reply done = ask(Message::commit, "a/b/c.txt");
  ASSERT_EQ(done.answer.type, Message::done);
  EXPECT_EQ(done.answer.entries.at(0).size, 3u);
  EXPECT_EQ(read(root_ / "a/b/c.txt"), "new");
}

TEST_F(FileHelper, ReplacesInOneStepAndKeepsThePermissions) {
  write(root_ / "a.sh", "old");
  fs::permissions(root_ / "a.sh", fs::perms{0750});
  const Reply old = ask(Message::open, "a.sh");
  EXPECT_EQ(upload("a.sh", "new").answer.type, Message::done);
  EXPECT_EQ(read(root_ / "a.sh"), "new");
  EXPECT_EQ(fs::status(root_ / "a.sh").permissions(), fs::perms{0750});
  EXPECT_EQ(content(old.fd), "old");  // F13
  EXPECT_EQ(std::distance(fs::directory_iterator{root_}, {}), 1);
}

TEST_F(FileHelper, AsksForNoMoreThanItNeeds) {
  write(root_ / "a", "hello");
  EXPECT_EQ(::fcntl(ask(Message::open, "a").fd.get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  // Read again when it belongs into another file system.
  EXPECT_EQ(::fcntl(ask(Message::create).fd.get(), F_GETFL) & O_ACCMODE, O_RDWR);
}

TEST_F(FileHelper, ReplacesWhateverNamesTheTenantTakes) {
  write(root_ / "a", "old");
  for (int i = 0; i < 200; ++i) {
    write(root_ / (".upload-" + std::to_string(::getpid()) + "-" + std::to_string(i) + ".tmp"), "");
  }
  EXPECT_EQ(upload("a", "new").answer.type, Message::done);
  EXPECT_EQ(read(root_ / "a"), "new");
}

// As when it was put there after a look at what has the name.
TEST_F(FileHelper, ReplacesNoDirectory) {
  write(root_ / "a/b", "theirs");
  const os::Fd root{::open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  const os::Fd file{::open(root_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
  EXPECT_FALSE(give_name(file.get(), root.get(), "a", true));
  EXPECT_EQ(errno, EISDIR);
  EXPECT_EQ(read(root_ / "a/b"), "theirs");
  EXPECT_EQ(std::distance(fs::directory_iterator{root_}, {}), 1);
}

TEST_F(FileHelper, ReplacesOrSaysNoWhileTheTenantRemovesWhatItSees) {
  std::atomic<bool> over = false;
  std::thread tenant{[&] {
    while (!over) {
      std::error_code ignored;
      for (const auto& entry : fs::directory_iterator{root_, ignored}) {
        if (entry.path().filename() != "a") fs::remove(entry.path(), ignored);
      }
    }
  }};
  write(root_ / "a", "0");
  std::string kept = "0";
  for (int i = 1; i < 300; ++i) {
    const Reply reply = upload("a", std::to_string(i));
    if (reply.answer.type == Message::done) {
      kept = std::to_string(i);
    } else {
      EXPECT_EQ(reply.answer.reason, Reason::not_found);
    }
    EXPECT_EQ(read(root_ / "a"), kept);
  }
  over = true;
  tenant.join();
  EXPECT_EQ(std::distance(fs::directory_iterator{root_}, {}), 1);
}

TEST(FilesTree, DescribesTimesBeyondAllMeasure) {
  struct stat info{};
  info.st_mtim.tv_sec = 9000000000000000;
  EXPECT_EQ(static_cast<std::int64_t>(describe("a", info).modified_ns) / 1000000000, 9223372035);
  info.st_mtim.tv_sec = -9000000000000000;
  EXPECT_EQ(static_cast<std::int64_t>(describe("a", info).modified_ns) / 1000000000, -9223372035);
}

TEST(FilesWire, RefusesATypeThatThereIsNot) {
  Answer answer;
  answer.type = Message::entries;
  answer.entries.push_back({.name = "a", .type = static_cast<Type>(4)});
  EXPECT_FALSE(Answer::decode(answer.encode(), answer));
}

TEST_F(FileHelper, F16NeverWritesThroughALink) {
  fs::create_directories(top_ / "outside");
  fs::create_symlink(top_ / "outside", root_ / "a");
  write(root_ / "file", "x");
  EXPECT_EQ(upload("a/b.txt", "x").answer.type, Message::refused);
  EXPECT_TRUE(fs::is_empty(top_ / "outside"));
  EXPECT_EQ(upload("file/b.txt", "x").answer.reason, Reason::blocked);
  fs::create_symlink("../secret", root_ / "link");
  EXPECT_EQ(upload("link", "x").answer.reason, Reason::link);
  EXPECT_EQ(read(top_ / "secret"), "secret");
}

TEST_F(FileHelper, RefusesNamesThatAreNone) {
  for (const char* name : {"..", ".", "a/..", "../x", "a/../x", ""}) {
    EXPECT_EQ(upload(name, "x").answer.type, Message::refused) << name;
  }
  EXPECT_FALSE(fs::exists(top_ / "x"));
}

TEST_F(FileHelper, F21ListsWhateverIsThere) {
  write(root_ / "a", "12345");
  fs::create_directories(root_ / "dir");
  fs::create_symlink("/nowhere", root_ / "dangling");
  ASSERT_EQ(::mkfifo((root_ / "fifo").c_str(), 0644), 0);
  const Reply reply = ask(Message::list);
  ASSERT_EQ(reply.answer.type, Message::entries);
  std::map<std::string, Type> seen;
  for (const Entry& entry : reply.answer.entries) seen[entry.name] = entry.type;
  const std::map<std::string, Type> expected = {
      {"a", Type::file}, {"dir", Type::directory}, {"dangling", Type::link}, {"fifo", Type::other}};
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(receive().answer.type, Message::done);
}

TEST_F(FileHelper, R12StopsAtTheLimit) {
  for (int i = 0; i < 300; ++i) write(root_ / std::to_string(i), "");
  Reply reply = ask(Message::list, {}, 200);
  std::size_t count = 0;
  while (reply.answer.type == Message::entries) {
    count += reply.answer.entries.size();
    reply = receive();
  }
  EXPECT_EQ(count, 200u);
  EXPECT_EQ(reply.answer.complete, 0);
}

TEST_F(FileHelper, CountsWhatIsUsed) {
  write(root_ / "a", "12345");
  write(root_ / "b/c/d", "12");
  fs::create_symlink("a", root_ / "link");
  const Reply reply = ask(Message::usage, {}, 1000);
  EXPECT_EQ(reply.answer.files, 2u);
  EXPECT_EQ(reply.answer.bytes, 7u);
  EXPECT_EQ(reply.answer.complete, 1);
}

TEST_F(FileHelper, R10EndsOnADeepTree) {
  std::string deep = root_.string();
  os::Fd at{::open(root_.c_str(), O_RDONLY | O_DIRECTORY)};
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(::mkdirat(at.get(), "d", 0755), 0);
    at = os::Fd{::openat(at.get(), "d", O_RDONLY | O_DIRECTORY)};
  }
  const Reply reply = ask(Message::usage, {}, 100000);
  EXPECT_EQ(reply.answer.files, 0u);
  EXPECT_EQ(reply.answer.complete, 0);
  os::remove_tree(root_);
}

TEST_F(FileHelper, R11FindsAFileByTheNameThatAListingShows) {
  write(root_ / "bad\xff\xfename", "hello");
  EXPECT_EQ(content(ask(Message::open, "bad\xef\xbf\xbd\xef\xbf\xbdname").fd), "hello");
  EXPECT_EQ(refusal(Message::open, "bad\xef\xbf\xbdname"), Reason::not_found);
}

TEST_F(FileHelper, EndsOnNonsense) {
  ASSERT_EQ(os::send_packet(ours_.get(), "nonsense"), 1);
  char byte;
  EXPECT_EQ(::recv(ours_.get(), &byte, 1, 0), 0);
}

}  // namespace
}  // namespace tb::guest::files

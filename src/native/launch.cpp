// SPDX-License-Identifier: Apache-2.0
#include "native/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <filesystem>
#include <vector>

#include "os/fd.h"

extern char** environ;

namespace tb::native {
namespace {

constexpr int kReadyFd = 3;

bool answers(const std::string& state_dir) {
  const std::string path = state_dir + "/keeper.sock";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  path.copy(address.sun_path, path.size());
  os::Fd socket{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  return socket &&
         ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

std::vector<std::string> words_of(const KeeperLaunch& launch) {
  std::vector<std::string> words = {"threadbox",    "keeper",
                                    "--state-dir",  launch.state_dir,
                                    "--server-uid", std::to_string(launch.server_uid),
                                    "--grace",      std::to_string(launch.grace_seconds),
                                    "--ready-fd",   std::to_string(kReadyFd)};
  for (const std::string& environment : launch.environments) {
    words.insert(words.end(), {"--environment", environment});
  }
  for (const std::string& directory : launch.directories) {
    words.insert(words.end(), {"--directory", directory});
  }
  if (launch.detach) words.push_back("--detach");
  return words;
}

// In a session of its own: the terminal's Ctrl-C is for the server. Nothing of a program that we
// are a library of is passed on: no descriptors, no blocked or ignored signals.
pid_t spawn_keeper(const KeeperLaunch& launch, const os::Fd& ready) {
  const std::string log = launch.state_dir + "/keeper.log";
  const std::vector<std::string> words = words_of(launch);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
  ::posix_spawn_file_actions_adddup2(&actions, ready.get(), kReadyFd);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, kReadyFd + 1);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::posix_spawnattr_setsigmask(&attributes, &signals);
  ::sigfillset(&signals);
  ::posix_spawnattr_setsigdefault(&attributes, &signals);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int result =
      ::posix_spawn(&pid, launch.program.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (result != 0) throw SystemError{result, "start the keeper " + launch.program};
  return pid;
}

}  // namespace

bool ensure_keeper(const KeeperLaunch& launch) {
  if (answers(launch.state_dir)) return false;
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC), "pipe");
  os::Fd read_end{ends[0]};
  os::Fd write_end{ends[1]};
  const pid_t pid = spawn_keeper(launch, write_end);
  write_end.reset();
  std::string said;
  char buffer[512];
  ssize_t n;
  while ((n = ::read(read_end.get(), buffer, sizeof buffer)) > 0) {
    said.append(buffer, static_cast<std::size_t>(n));
  }
  if (launch.detach) ::waitpid(pid, nullptr, 0);
  if (said == "ok") return true;
  if (!launch.detach) ::waitpid(pid, nullptr, 0);  // with it goes what it had mounted
  if (answers(launch.state_dir)) return false;     // another server was faster
  throw Error{said.ends_with("is already running") ? Code::conflict : Code::unavailable,
              "the keeper did not start: " + (said.empty() ? "see keeper.log" : said)};
}

}  // namespace tb::native

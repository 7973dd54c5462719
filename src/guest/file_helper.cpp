// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/confine.h"
#include "guest/files.h"

namespace tb::guest {
namespace {

constexpr const char* kWorkspace = "/workspace";
constexpr const char* kSandbox = "/sandbox";
constexpr int kSocket = 3;

bool drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return ::syscall(SYS_capset, &header, none) == 0;
}

// The tenant's rights over files, but PID 1's uid: the tenant can neither signal nor trace it.
bool see_files_as_tenant(const Config& config) {
  ::setfsgid(config.gid);
  ::setfsuid(config.uid);
  // These calls tell no failure; asking with an impossible id tells what is set.
  const bool group = ::setfsgid(static_cast<gid_t>(-1)) == static_cast<int>(config.gid);
  const bool user = ::setfsuid(static_cast<uid_t>(-1)) == static_cast<int>(config.uid);
  return group && user;
}

[[noreturn]] void run_helper(const Config& config, int socket) {
  if (::dup2(socket, kSocket) < 0) ::_exit(1);
  ::syscall(SYS_close_range, kSocket + 1, ~0u, 0);
  if (!see_files_as_tenant(config) || !drop_capabilities()) ::_exit(1);
  if (!config.in_container && add_filter(config.command_filter) != 0) ::_exit(1);
  ::umask(0);  // modes are given in full
  const int root = ::open(kWorkspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) ::_exit(1);
  const int sandbox = ::open(kSandbox, O_PATH | O_DIRECTORY | O_CLOEXEC);
  files::serve(root, kSocket, sandbox);
  ::_exit(0);
}

}  // namespace

int start_file_helper(const Config& config, int socket) {
  const pid_t pid = ::fork();
  if (pid == 0) run_helper(config, socket);
  return pid;
}

}  // namespace tb::guest

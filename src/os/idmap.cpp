// SPDX-License-Identifier: Apache-2.0
#include "os/idmap.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "os/fault.h"

namespace tb::os {
namespace {

// A user namespace needs somebody who is in it while its map is written; the descriptor keeps it.
class Occupant {
 public:
  Occupant() {
    clone_args args{};
    args.flags = CLONE_NEWUSER;
    args.exit_signal = SIGCHLD;
    pid_ = static_cast<pid_t>(attempt("clone3 a user namespace",
                                      [&] { return ::syscall(SYS_clone3, &args, sizeof args); }));
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  ~Occupant() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Occupant(const Occupant&) = delete;
  Occupant& operator=(const Occupant&) = delete;

  std::string proc(const char* name) const { return "/proc/" + std::to_string(pid_) + "/" + name; }

 private:
  pid_t pid_;
};

Fd user_namespace(const std::string& map) {
  const Occupant occupant;
  for (const char* file : {"uid_map", "gid_map"}) {
    attempt(std::string{"write "} + file, [&] {
      write_file(occupant.proc(file), map);
      return 0;
    });
  }
  return Fd{attempt("open a user namespace", [&] {
    return ::open(occupant.proc("ns/user").c_str(), O_RDONLY | O_CLOEXEC);
  })};
}

}  // namespace

void show_owner_as(const Fd& mount, std::uint32_t on_disk, std::uint32_t shown) {
  const Fd owners = user_namespace(std::to_string(on_disk) + " " + std::to_string(shown) + " 1\n");
  mount_attr attr{};
  attr.attr_set = MOUNT_ATTR_IDMAP;
  attr.userns_fd = static_cast<std::uint64_t>(owners.get());
  attempt("map the owners of a mount",
          [&] { return ::mount_setattr(mount.get(), "", AT_EMPTY_PATH, &attr, sizeof attr); });
}

}  // namespace tb::os

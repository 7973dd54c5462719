// SPDX-License-Identifier: Apache-2.0
#include "guest/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

namespace tb::guest {
namespace {

// A new terminal belongs to the one who opens the master, and PID 1 may not give it away
// (CAP_CHOWN). So it opens it with the tenant's rights over files.
class AsTenant {
 public:
  explicit AsTenant(const Config& config) : needed_(::getuid() != config.uid) {
    if (!needed_) return;  // rootless: there is only one uid
    ::setfsgid(config.gid);
    ::setfsuid(config.uid);
  }
  ~AsTenant() {
    if (!needed_) return;
    const int why = errno;
    ::setfsuid(::geteuid());
    ::setfsgid(::getegid());
    // The kernel forgets both with each change of these ids (commit_creds). A keeper that died in
    // between is noticed by the end of its socket.
    ::prctl(PR_SET_DUMPABLE, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    errno = why;
  }
  AsTenant(const AsTenant&) = delete;
  AsTenant& operator=(const AsTenant&) = delete;

 private:
  bool needed_;
};

}  // namespace

const char* open_terminal(const Start& start, const Config& config, Terminal& to) {
  const AsTenant tenant{config};
  to.master = ::open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (to.master < 0) return "open a terminal";
  const int unlocked = 0;
  if (::ioctl(to.master, TIOCSPTLCK, &unlocked) != 0) return "unlock the terminal";
  // By the master, not by a name: whatever the tenant does in /dev/pts is of no matter.
  to.slave = ::ioctl(to.master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (to.slave < 0) return "open the terminal's other side";
  winsize size{};
  size.ws_row = static_cast<unsigned short>(start.rows);
  size.ws_col = static_cast<unsigned short>(start.columns);
  if (::ioctl(to.master, TIOCSWINSZ, &size) != 0) return "set the terminal's size";
  return nullptr;
}

int take_terminal(int slave) { return ::ioctl(slave, TIOCSCTTY, 0); }

}  // namespace tb::guest

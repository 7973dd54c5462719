// SPDX-License-Identifier: Apache-2.0
#include "guest/shell.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "base/hex.h"

namespace tb::guest {
namespace {

constexpr std::size_t kMaxHeard = 16 << 10;  // a path is 4 KiB at most
constexpr int kPieces = 32;  // that are read at a time: who talks without end stops nobody else
constexpr const char* kWhere = "/dev/shm/.shell-";

// A quoted word is no alias, and `builtin` skips functions; who takes `builtin` away, too, has a
// shell that does not answer any more, and gets another one.
//
// The trap is how a run is ended by force: when bash waits for a program that is killed, it takes
// an interrupt for that program's own affair and goes on with the next command. A trap comes before
// the next command, and an interrupt from within it leaves all of the run.
constexpr const char* kOpening =
    "builtin set +o history +H\n"
    "builtin history -c\n"
    "PS1= PS2=\n"
    "builtin trap 'builtin trap - INT; builtin kill -INT $$' RTMAX\n";

// $1: which of two files. $2: $? as the next run is to find it. In a list with || no failure ends
// the shell. `>|`: whatever noclobber says. Options come last: they might end the restoration.
constexpr const char* kSnapshot =
    "builtin shopt -p >|@/\"$1\" && builtin declare -p >>@/\"$1\" &&\n"
    "builtin declare -f >>@/\"$1\" && builtin declare -F >>@/\"$1\" &&\n"
    "builtin alias -p >>@/\"$1\" && builtin trap -p >>@/\"$1\" && builtin umask -p >>@/\"$1\" &&\n"
    "builtin printf 'builtin cd -- %q\\nOLDPWD=%q\\n' \"$PWD\" \"${OLDPWD-}\" >>@/\"$1\" &&\n"
    "builtin set +o >>@/\"$1\" && builtin printf '%s%s %s\\0' snap shot \"$1\" >&2 || builtin :\n"
    "case $- in *e*) builtin return 0;; esac\n"
    "builtin return \"$2\"\n";

// What was unset must not come back with the environment.
constexpr const char* kRestore =
    "for _ in $(builtin compgen -e); do builtin unset -v \"$_\"; done\n"
    "builtin . @/\"$1\"\n";

std::string random_name() {
  unsigned char bytes[16] = {};
  (void)!::getrandom(bytes, sizeof bytes, 0);
  return to_hex(bytes);
}

std::string named(const Shell& shell, char what, std::uint32_t run) {
  return shell.place + "/" + what + std::to_string(run);
}

// As it is asked for, whatever our umask is.
class OpenMask {
 public:
  OpenMask() : before_(::umask(0)) {}
  ~OpenMask() { ::umask(before_); }
  OpenMask(const OpenMask&) = delete;
  OpenMask& operator=(const OpenMask&) = delete;

 private:
  mode_t before_;
};

int write_file(const std::string& path, std::string_view text, mode_t mode) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return -1;
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n <= 0) break;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  const int why = errno;
  ::close(fd);
  errno = why;
  return text.empty() ? 0 : -1;
}

std::string at_place(const Shell& shell, std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '@') {
      result += shell.place;
    } else {
      result += c;
    }
  }
  return result;
}

// One end stays ours; the writing one is kept until the run has ended, so that a pipe that nobody
// has opened yet does not look like one that all have closed.
const char* open_fifo(const std::string& path, int& ours, int& child) {
  if (::mkfifo(path.c_str(), 0622) != 0) return "make pipes";
  ours = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (ours < 0) return "open pipes";
  child = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  return child < 0 ? "open pipes" : nullptr;
}

// Lines are short: a socket that has no room for one is read by nobody.
bool feed(const Shell& shell, const std::string& line) {
  return ::send(shell.feed, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(line.size());
}

// In two parts: a trace of the command does not contain what it prints.
bool feed_nonce(Shell& shell) {
  const std::string nonce = random_name();
  // The empty line ends whatever an interrupt has left of a line.
  const bool fed = feed(shell, "\n\\builtin printf '%s%s %s %s %s\\0' " + nonce.substr(0, 16) +
                                   " " + nonce.substr(16) + " \"$?\" \"$-\" \"$PWD\" >&2\n");
  if (fed) shell.nonces.push_back(nonce);
  return fed;
}

// "nonce 3 himBHs /workspace": what a prompt or a trap printed may stand before it.
RunEnd understand(Shell& shell, std::string_view word) {
  RunEnd end;
  for (const std::string& nonce : shell.nonces) {
    const std::size_t at = word.rfind(nonce + " ");
    if (at == std::string_view::npos) continue;
    const char* const last = word.data() + word.size();
    const auto [next, error] = std::from_chars(word.data() + at + nonce.size() + 1, last, end.code);
    const std::string_view rest{next, static_cast<std::size_t>(last - next)};
    const std::size_t cwd = rest.find(' ', 1);
    if (error != std::errc{} || cwd == std::string_view::npos) continue;
    end.any = true;
    end.synchronous = nonce == shell.nonces.back();
    end.restricted = rest.substr(0, cwd).find('r') != std::string_view::npos;
    shell.state.cwd = rest.substr(cwd + 1);
    return end;
  }
  const std::size_t at = word.rfind("snapshot ");
  if (at != std::string_view::npos && at + 10 == word.size()) {
    shell.snapshot = word.back() == '1' ? 1 : 0;
  }
  return end;
}

// The bytes of one sender, whose pid the kernel tells.
ssize_t receive(int socket, char* buffer, std::size_t size, int& sender) {
  iovec part{buffer, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t n = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  sender = 0;
  const cmsghdr* header = n > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header && header->cmsg_type == SCM_CREDENTIALS) {
    sender = reinterpret_cast<const ucred*>(CMSG_DATA(header))->pid;
  }
  return n;
}

}  // namespace

Shell::~Shell() {
  close_sockets();
  remove_place(*this);
}

void Shell::close_sockets() {
  for (int* fd : {&feed, &words}) {
    if (*fd >= 0) ::close(*fd);
    *fd = -1;
  }
  heard.clear();
}

const char* make_place(Shell& shell) {
  const OpenMask mask;
  shell.place = kWhere + random_name().substr(0, 12);
  // Ours, so that what is in it can't be renamed or removed by the tenant.
  if (::mkdir(shell.place.c_str(), 0711) != 0) {
    shell.place.clear();
    return "make room in /dev/shm";
  }
  const bool made = write_file(shell.place + "/i", kOpening, 0444) == 0 &&
                    write_file(shell.place + "/s", at_place(shell, kSnapshot), 0444) == 0 &&
                    write_file(shell.place + "/b", at_place(shell, kRestore), 0444) == 0 &&
                    write_file(shell.place + "/0", "", 0666) == 0 &&
                    write_file(shell.place + "/1", "", 0666) == 0;
  return made ? nullptr : "make room in /dev/shm";
}

void remove_place(Shell& shell) {
  if (shell.place.empty()) return;
  for (const char* name : {"/i", "/s", "/b", "/0", "/1"}) ::unlink((shell.place + name).c_str());
  ::rmdir(shell.place.c_str());
  shell.place.clear();
}

// Sockets, not pipes: nobody can open one again by its place in /proc. Each line to it is a packet:
// bash takes one at a time, and what is left in the socket is what it has not come to yet.
const char* open_sockets(Shell& shell, int child[3]) {
  shell.close_sockets();
  int feed[2];
  int words[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, feed) != 0) return "make sockets";
  shell.feed = feed[1];
  child[0] = feed[0];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, words) != 0) return "make sockets";
  shell.words = words[0];
  child[2] = words[1];
  const int yes = 1;
  if (::setsockopt(shell.words, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) != 0) {
    return "make sockets";
  }
  child[1] = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  return child[1] < 0 ? "open /dev/null" : nullptr;
}

const char* place_run(const Shell& shell, const Start& run, Ends& ends) {
  const OpenMask mask;
  if (write_file(named(shell, 'r', run.id), run.script + "\n", 0444) != 0) {
    return "store the script in /dev/shm";
  }
  if (const char* failed = open_fifo(named(shell, 'o', run.id), ends.ours[0], ends.child[1])) {
    return failed;
  }
  return open_fifo(named(shell, 'e', run.id), ends.ours[1], ends.child[2]);
}

void remove_run(const Shell& shell, std::uint32_t run) {
  for (const char what : {'r', 'o', 'e'}) ::unlink(named(shell, what, run).c_str());
}

bool feed_opening(Shell& shell) {
  std::string lines = "\\builtin . " + shell.place + "/i\n";
  if (shell.snapshot >= 0) {
    lines += "\\builtin . " + shell.place + "/b " + std::to_string(shell.snapshot) +
             " </dev/null >/dev/null 2>&1\n";
  }
  return feed(shell, lines);
}

bool feed_run(Shell& shell, std::uint32_t run) {
  shell.nonces.clear();
  return feed(shell, "\\builtin . " + named(shell, 'r', run) + " </dev/null >|" +
                         named(shell, 'o', run) + " 2>|" + named(shell, 'e', run) + "\n") &&
         feed_nonce(shell);
}

bool feed_question(Shell& shell) { return feed_nonce(shell); }

bool feed_snapshot(Shell& shell, int code) {
  const char which = shell.snapshot == 0 ? '1' : '0';
  return feed(shell,
              "\\builtin . " + shell.place + "/s " + which + " " + std::to_string(code) + "\n");
}

bool has_read_all(const Shell& shell) {
  int left = 0;
  return ::ioctl(shell.feed, SIOCOUTQ, &left) == 0 && left == 0;
}

RunEnd listen(Shell& shell, int leader) {
  RunEnd end;
  char buffer[4096];
  int sender = 0;
  ssize_t n = -1;
  for (int i = 0; i < kPieces; ++i) {
    n = receive(shell.words, buffer, sizeof buffer, sender);
    if (n <= 0) break;
    if (leader > 0 && sender != leader) continue;
    shell.heard.append(buffer, static_cast<std::size_t>(n));
    std::size_t stop;
    while ((stop = shell.heard.find('\0')) != std::string::npos) {
      const RunEnd told = understand(shell, std::string_view{shell.heard}.substr(0, stop));
      if (told.any && !end.any) end = told;  // the first one has the run's own status
      if (told.any) end.synchronous = told.synchronous;
      shell.heard.erase(0, stop + 1);
    }
    if (shell.heard.size() > kMaxHeard) shell.heard.erase(0, shell.heard.size() - kMaxHeard);
  }
  if (n == 0) {
    // Nobody can say anything on it any more, and that would be told again and again.
    ::close(shell.words);
    shell.words = -1;
  }
  return end;
}

}  // namespace tb::guest

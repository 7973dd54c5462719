// SPDX-License-Identifier: Apache-2.0
// A builtin for a bash that is started ahead of its command: waits for it, makes sure that the
// shell is what a new one would be, and lets bash go on with the text as if it had been its -c
// argument. Whoever is in doubt exits: then PID 1 starts a new shell. It has no libraries of its
// own: what it names is bash's, or the C library's that bash has loaded, and else it can't be
// loaded at all.
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <initializer_list>

#include "guest/waiter/wire.h"

using namespace tb::guest::waiter;

// ---- of bash 5 ----
extern "C" {
extern char* command_execution_string;
extern char* shell_name;
extern char** shell_environment;
extern time_t shell_start_time;
extern timeval shellstart;
extern const char* const dist_version;
extern int bash_argv_initialized;
void* bind_variable(const char* name, char* value, int flags);
int unbind_variable(const char* name);
void* xmalloc(size_t size);
void array_flush(void* array);

struct variable {
  char* name;
  void* value;
};
variable* find_variable(const char* name);

struct builtin {
  const char* name;
  int (*function)(void* words);
  int flags;
  char* const* long_doc;
  const char* short_doc;
  char* handle;
};
}

namespace {

[[noreturn]] void leave() { ::_exit(1); }

void require(bool good) {
  if (!good) leave();
}

// What another process of the same user can change in this one.
struct Traits {
  rlimit64 limits[RLIM_NLIMITS];
  long priority;
  long scheduler;
  long io_priority;
  long slack;
  unsigned char cpus[1024 / 8];
  char memory_killer[16];
};

// `memory_killer`: /proc/self/oom_score_adj, or -1; to open it takes longer than all the rest.
void read_traits(Traits& to, int memory_killer) {
  ::memset(&to, 0, sizeof to);
  for (int i = 0; i < static_cast<int>(RLIM_NLIMITS); ++i) {
    ::syscall(SYS_prlimit64, 0, i, nullptr, &to.limits[i]);
  }
  to.priority = ::syscall(SYS_getpriority, PRIO_PROCESS, 0);
  to.scheduler = ::syscall(SYS_sched_getscheduler, 0);
  to.io_priority = ::syscall(SYS_ioprio_get, 1, 0);
  to.slack = ::syscall(SYS_prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0);
  ::syscall(SYS_sched_getaffinity, 0, sizeof to.cpus, to.cpus);
  if (memory_killer < 0) return;
  require(::pread(memory_killer, to.memory_killer, sizeof to.memory_killer, 0) > 0);
}

// Whether a new shell would be this program, too: PATH may name places that can be written to.
bool would_be_found(const struct stat& self) {
  const char* path = ::getenv("PATH");
  if (!path) return false;
  while (*path) {
    const char* const colon = ::strchrnul(path, ':');
    const auto size = static_cast<size_t>(colon - path);
    char file[PATH_MAX];
    if (size == 0 || size + sizeof "/bash" > sizeof file) return false;
    ::memcpy(file, path, size);
    ::memcpy(file + size, "/bash", sizeof "/bash");
    struct stat found{};
    if (::stat(file, &found) == 0) {
      return found.st_ino == self.st_ino && found.st_dev == self.st_dev;
    }
    path = *colon ? colon + 1 : colon;
  }
  return false;
}

// The arguments lie before the environment, which begins with its first string.
void show_as(const char* first, const char* second) {
  char* const end = shell_environment[0];
  char* const words = end - kWords;
  static bool ours = ::memcmp(words, "bash\0-c\0 ", kFirstWords + 1) == 0;
  if (!ours) return;
  ::memset(words, 0, kWords);
  size_t room = kWords;
  for (const char* text : {first, second}) {
    const size_t size = ::strnlen(text, room);
    ::memcpy(end - room, text, size);
    room -= size;
  }
  if (end[-1] == 0) end[-1] = 1;  // not zero: the kernel shows one string, up to its end
}

void hide_bash_env() {
  unbind_variable("BASH_ENV");
  for (char** entry = shell_environment; *entry; ++entry) {
    if (::strcmp(*entry, kBashEnv) == 0) ::memset(*entry, 0, sizeof kBashEnv - 1);
  }
}

struct Taken {
  char* directory;
  char* text;
  int streams[kStreams];
};

// Waits. A signal that is not the end of us is none that a new shell would have seen.
Taken receive() {
  char first = 0;
  const ssize_t size = ::recv(kOfferFd, &first, 1, MSG_PEEK | MSG_TRUNC);
  require(size > static_cast<ssize_t>(sizeof(Offer)));
  auto* const message = static_cast<char*>(xmalloc(static_cast<size_t>(size) + 1));
  message[size] = 0;
  Taken taken{};
  iovec part{message, static_cast<size_t>(size)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof taken.streams)];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  require(::recvmsg(kOfferFd, &header, 0) == size);
  const cmsghdr* const passed = CMSG_FIRSTHDR(&header);
  require(passed && passed->cmsg_len == CMSG_LEN(sizeof taken.streams));
  ::memcpy(taken.streams, CMSG_DATA(passed), sizeof taken.streams);
  Offer offer{};
  ::memcpy(&offer, message, sizeof offer);
  require(offer.directory_bytes < static_cast<size_t>(size) - sizeof offer);
  taken.directory = message + sizeof offer;
  taken.text = taken.directory + offer.directory_bytes + 1;
  return taken;
}

void connect_streams(const Taken& taken) {
  for (int i = 0; i < static_cast<int>(kStreams); ++i) {
    require(::dup2(taken.streams[i], i) == i);
    ::close(taken.streams[i]);
  }
}

// A text that is read by BASH_ENV is as one that is sourced: it has arguments, none.
void forget_arguments() {
  if (variable* const counts = find_variable("BASH_ARGC")) array_flush(counts->value);
  bash_argv_initialized = 0;
}

void become_new(const Taken& taken) {
  forget_arguments();
  hide_bash_env();
  shell_name = static_cast<char*>(xmalloc(sizeof "bash"));  // was one of its words
  ::memcpy(shell_name, "bash", sizeof "bash");
  show_as("bash -c ", taken.text);
  command_execution_string = taken.text;
  bind_variable("BASH_EXECUTION_STRING", taken.text, 0);
  require(::gettimeofday(&shellstart, nullptr) == 0);  // what SECONDS counts from
  shell_start_time = shellstart.tv_sec;
}

int wait_for_command(void*) {
  require(dist_version[0] == '5' && dist_version[1] == '.');
  ::close(kLibraryFd);
  ::close(kOpeningFd);
  const int memory_killer = ::open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
  struct stat self{};
  require(::stat("/proc/self/exe", &self) == 0);
  Traits traits;
  read_traits(traits, memory_killer);
  char directory[PATH_MAX];
  require(::syscall(SYS_getcwd, directory, sizeof directory) > 0);
  show_as("bash: started ahead, waits for a command", "");
  require(::send(kOfferFd, &kWaits, 1, MSG_NOSIGNAL) == 1);

  const Taken taken = receive();
  Traits traits_now;
  read_traits(traits_now, memory_killer);
  ::close(memory_killer);
  char directory_now[PATH_MAX];
  require(::memcmp(&traits, &traits_now, sizeof traits) == 0);
  require(::chdir(taken.directory) == 0);
  require(::syscall(SYS_getcwd, directory_now, sizeof directory_now) > 0);
  require(::strcmp(directory, directory_now) == 0);
  require(would_be_found(self));
  connect_streams(taken);
  become_new(taken);
  // If PID 1 has taken the offer back, this fails: the socket is shut down.
  require(::send(kOfferFd, &kTakes, 1, MSG_NOSIGNAL) == 1);
  ::close(kOfferFd);
  return 0;
}

char* const kNoDocumentation[] = {nullptr};
constexpr int kEnabled = 1;

}  // namespace

extern "C" {
// enable(1) looks for this name.
__attribute__((visibility("default"))) builtin bash_struct = {
    "bash", wait_for_command, kEnabled, kNoDocumentation, "bash", nullptr};
}

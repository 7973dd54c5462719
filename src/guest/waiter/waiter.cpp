// SPDX-License-Identifier: Apache-2.0
// A builtin for a bash that is started ahead of its command: waits for it, makes sure that the
// shell is what a new one would be, and lets bash go on with the text as if it had been its -c
// argument. Asked for a copy, it forks one that waits, and goes on waiting itself: so that one
// start is enough for many commands. Whoever is in doubt exits: then PID 1 starts a new shell. It
// has no libraries of its own: what it names is bash's, or the C library's that bash has loaded,
// and else it can't be loaded at all.
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
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
extern pid_t dollar_dollar_pid;
extern pid_t shell_pgrp;
// Not every bash 5 has it; one without makes no copies.
__attribute__((weak)) void seedrand();
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

// As ps(1) shows it.
constexpr char kWaiting[] = "bash: started ahead, waits for a command";
constexpr char kCopied[] = "bash: started ahead, copied for commands";

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

void say(char word) {
  const Word said{word, ::getpid()};
  require(::send(kOfferFd, &said, sizeof said, MSG_NOSIGNAL) == sizeof said);
}

// A packet, with as many descriptors as its kind has.
void receive(char* to, size_t size, int* descriptors, size_t count) {
  iovec part{to, size};
  alignas(cmsghdr) char control[CMSG_SPACE(kStreams * sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  require(::recvmsg(kOfferFd, &header, MSG_CMSG_CLOEXEC) == static_cast<ssize_t>(size));
  const cmsghdr* const passed = CMSG_FIRSTHDR(&header);
  require(passed && passed->cmsg_len == CMSG_LEN(count * sizeof(int)));
  ::memcpy(descriptors, CMSG_DATA(passed), count * sizeof(int));
}

struct Taken {
  char* directory;
  char* text;
  int streams[kStreams];
};

Taken take(size_t size, const Head& head) {
  auto* const message = static_cast<char*>(xmalloc(size + 1));
  message[size] = 0;
  Taken taken{};
  receive(message, size, taken.streams, kStreams);
  require(head.bytes < size - sizeof head);
  taken.directory = message + sizeof head;
  taken.text = taken.directory + head.bytes + 1;
  return taken;
}

void connect_streams(const Taken& taken) {
  for (int i = 0; i < static_cast<int>(kStreams); ++i) {
    require(::dup2(taken.streams[i], i) == i);
    ::close(taken.streams[i]);
  }
}

// ---- memory that commands need ----
// A copy has to fetch each page anew when it first uses it. One that is made ahead fetches what
// most need while it waits: all that can be written, and the code.
struct Range {
  size_t begin;
  size_t end;
  bool written;
};
constexpr size_t kPage = 4096;
constexpr size_t kMaxRanges = 24;
Range ranges[kMaxRanges];
size_t range_count = 0;

size_t read_hex(const char*& at) {
  size_t value = 0;
  for (;; ++at) {
    const bool digit = *at >= '0' && *at <= '9';
    if (!digit && !(*at >= 'a' && *at <= 'f')) return value;
    value = value * 16 + static_cast<size_t>(digit ? *at - '0' : *at - 'a' + 10);
  }
}

// 55e0a2a00000-55e0a2a2f000 r--p 00000000 fe:00 1234   /usr/bin/bash
void note_range(const char* line) {
  Range range{};
  range.begin = read_hex(line);
  range.end = read_hex(++line);
  range.written = line[2] == 'w' && line[4] == 'p';
  const bool code = line[3] == 'x' && ::strchr(line, '/');
  // Most of the stack was never used.
  const auto here = reinterpret_cast<size_t>(&range) & ~(kPage - 1);
  if (range.begin < here && here < range.end) range.begin = here - kPage;
  if ((range.written || code) && range_count < kMaxRanges) ranges[range_count++] = range;
}

void note_ranges() {
  static char text[16384];
  const int file = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  size_t size = 0;
  for (ssize_t n; (n = ::read(file, text + size, sizeof text - 1 - size)) > 0;) {
    size += static_cast<size_t>(n);
  }
  ::close(file);
  text[size] = 0;
  for (char* line = text; char* const end = ::strchr(line, '\n'); line = end + 1) {
    *end = 0;
    note_range(line);
  }
}

// In vain before Linux 5.14, and then they come one by one.
void fetch_pages() {
  for (size_t i = 0; i < range_count; ++i) {
    ::madvise(reinterpret_cast<void*>(ranges[i].begin), ranges[i].end - ranges[i].begin,
              ranges[i].written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
  }
}

// What fork(3) would see to, of which we can't have the cgroup.
struct Thread {
  void* id = nullptr;  // where the C library keeps it
  void* robust = nullptr;
  size_t robust_size = 0;
};

long fork_into(int cgroup, const Thread& thread) {
  clone_args args{};
  args.flags = CLONE_PARENT | CLONE_INTO_CGROUP;
  if (thread.id) args.flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  args.child_tid = reinterpret_cast<uint64_t>(thread.id);
  args.cgroup = static_cast<uint64_t>(cgroup);
  return ::syscall(SYS_clone3, &args, sizeof args);
}

void add_filter(char* program, size_t bytes) {
  sock_fprog filter{};
  filter.len = static_cast<unsigned short>(bytes / sizeof(sock_filter));
  filter.filter = reinterpret_cast<sock_filter*>(program);
  require(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0);
}

// True: this is the copy, which waits as the one that it is of.
bool copy(size_t size, const Head& head) {
  require(seedrand && size <= sizeof head + kMaxFilter && head.bytes == size - sizeof head);
  alignas(sock_filter) char message[sizeof head + kMaxFilter];
  int passed[2];
  receive(message, size, passed, 2);
  show_as(kCopied, "");
  const auto [socket, cgroup] = passed;
  Thread thread;
  if (::prctl(PR_GET_TID_ADDRESS, &thread.id) != 0) thread.id = nullptr;  // not in every kernel
  require(::syscall(SYS_get_robust_list, 0, &thread.robust, &thread.robust_size) == 0);
  if (range_count == 0) note_ranges();
  const long pid = fork_into(cgroup, thread);
  if (pid != 0) {  // if there is none, its socket's end says so
    ::close(socket);
    ::close(cgroup);
    return false;
  }
  ::close(cgroup);
  require(::dup2(socket, kOfferFd) == kOfferFd);
  ::close(socket);
  ::syscall(SYS_set_robust_list, thread.robust, thread.robust_size);
  require(::setsid() > 0);
  // PID 1 will hear of its end before it is over: from here it lets it go on.
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0) ::kill(::getpid(), SIGTRAP);
  add_filter(message + sizeof head, head.bytes);
  dollar_dollar_pid = shell_pgrp = ::getpid();
  seedrand();
  return true;
}

// A text that is read by BASH_ENV is as one that is sourced: it has arguments, none.
void forget_arguments() {
  if (variable* const counts = find_variable("BASH_ARGC")) array_flush(counts->value);
  bash_argv_initialized = 0;
}

void become_new(const Taken& taken) {
  shell_name = static_cast<char*>(xmalloc(sizeof "bash"));  // was one of its words
  ::memcpy(shell_name, "bash", sizeof "bash");
  show_as("bash -c ", taken.text);
  command_execution_string = taken.text;
  bind_variable("BASH_EXECUTION_STRING", taken.text, 0);
  require(::gettimeofday(&shellstart, nullptr) == 0);  // what SECONDS counts from
  shell_start_time = shellstart.tv_sec;
}

int open_memory_killer() { return ::open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC); }

// Waits. A signal that is not the end of us is none that a new shell would have seen.
Taken wait_for_offer(int& memory_killer) {
  for (;;) {
    Head head{};
    const ssize_t size = ::recv(kOfferFd, &head, sizeof head, MSG_PEEK | MSG_TRUNC);
    require(size > static_cast<ssize_t>(sizeof head));
    if (head.kind == Kind::offer) return take(static_cast<size_t>(size), head);
    if (!copy(static_cast<size_t>(size), head)) continue;
    ::close(memory_killer);  // of the one that this is a copy of
    memory_killer = open_memory_killer();
    show_as(kWaiting, "");
    say(kWaits);
    if (head.kind == Kind::copy_ahead) fetch_pages();
  }
}

// While it waits nobody may look into it or write to it, not even who has the same uid: one that is
// copied can do what commands can't.
void close_up(bool closed) { require(::prctl(PR_SET_DUMPABLE, closed ? 0 : 1, 0, 0, 0) == 0); }

int wait_for_command(void*) {
  close_up(true);
  require(dist_version[0] == '5' && dist_version[1] == '.');
  ::close(kLibraryFd);
  ::close(kOpeningFd);
  int memory_killer = open_memory_killer();
  struct stat self{};
  require(::stat("/proc/self/exe", &self) == 0);
  Traits traits;
  read_traits(traits, memory_killer);
  char directory[PATH_MAX];
  require(::syscall(SYS_getcwd, directory, sizeof directory) > 0);
  forget_arguments();
  hide_bash_env();
  show_as(kWaiting, "");
  say(kWaits);

  const Taken taken = wait_for_offer(memory_killer);
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
  close_up(false);
  // If PID 1 has taken the offer back, this fails: the socket is shut down.
  say(kTakes);
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

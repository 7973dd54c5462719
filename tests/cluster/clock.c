// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program, its time of day is that of the machine and as many seconds more as a
// file says, which is mapped: it steps while the program runs. No allocation, because allocators
// ask for the time.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long* ahead;

__attribute__((constructor)) static void map_clock(void) {
  const char* path = getenv("TEST_CLOCK");
  const int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void* place = mmap(0, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
  if (place != MAP_FAILED) ahead = place;
  close(fd);
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const long result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && clock == CLOCK_REALTIME && ahead) now->tv_sec += *ahead;
  return (int)result;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  (void)zone;
  struct timespec precise;
  const int result = clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return result;
}

time_t time(time_t* to) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (to) *to = now.tv_sec;
  return now.tv_sec;
}

// SPDX-License-Identifier: Apache-2.0
#include "e2b/told_output.h"

#include <fcntl.h>

#include <cerrno>

namespace tb::e2b {

void ToldOutput::open() {
  os::Fd read[2];
  for (int i = 0; i < 2; ++i) {
    int ends[2];
    check(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), "pipe2");
    read[i] = os::Fd{ends[0]};
    write_[i] = os::Fd{ends[1]};
  }
  output_.open_pipes(std::move(read[0]), std::move(read[1]));
}

void ToldOutput::append(sandbox::Stream which, std::string_view bytes) {
  const os::Fd& pipe = write_[which == sandbox::Stream::err];
  while (!bytes.empty() && pipe) {
    const ssize_t put = ::write(pipe.get(), bytes.data(), bytes.size());
    if (put > 0) bytes.remove_prefix(static_cast<std::size_t>(put));
    if (put < 0 && errno != EAGAIN && errno != EINTR) return;
    output_.drain();
  }
}

void ToldOutput::end() {
  write_[0].reset();
  write_[1].reset();
  output_.abandon();
}

}  // namespace tb::e2b

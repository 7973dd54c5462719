// SPDX-License-Identifier: Apache-2.0
// One stream: box/output.h.
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "box/output.h"

namespace tb::box {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMove = 1 << 20;   // bytes a splice moves at most: the largest pipe
constexpr std::size_t kFeed = 16 << 10;  // from a terminal, which holds 4 KiB as a rule
constexpr std::size_t kBusy = 64 << 10;  // in one go: who prints so much wants a wider pipe
constexpr int kWidePipe = 512 << 10;     // 128 of them are all that one user may have
constexpr std::size_t kWorthFinding = 32 << 10;
constexpr int kMostPeeked = 16 << 10;

// For a copy of what is in another pipe.
struct Scratch {
  os::Fd in;
  os::Fd out;
  Scratch() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
    out = os::Fd{ends[0]};
    in = os::Fd{ends[1]};
  }
};

}  // namespace

std::string spare_file(const std::string& dir) { return dir + "/spare"; }

std::string gap_line(std::uint64_t bytes) {
  return "\n[... " + std::to_string(bytes) + " bytes left out ...]\n";
}

StreamFile::StreamFile(std::string path, const OutputLimits& limits, Earlier earlier)
    : path_(std::move(path)), limits_(limits) {
  if (earlier == Earlier::possible) look_for_earlier();
}

void StreamFile::look_for_earlier() {
  struct stat info{};
  if (::stat(path_.c_str(), &info) == 0) {
    on_disk_ = true;
    stored_ = total_ = static_cast<std::uint64_t>(info.st_size);
  }
  std::uint64_t told = 0;
  const os::Fd file{::open(total_path().c_str(), O_RDONLY | O_CLOEXEC)};
  if (file && ::pread(file.get(), &told, sizeof told, 0) == sizeof told) {
    total_ = std::max(total_, told);
  }
  // What comes now does not belong right behind what is kept, whatever the limit is today.
  if (total_ > stored_) limits_.stored.count = stored_;
}

// Offsets must mean the same to the next server: what is not kept is counted all the same.
void StreamFile::save_total() {
  on_disk_ = true;
  const os::Fd file{::open(total_path().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  // A full disk costs the exact count after a restart, nothing else.
  if (file) (void)!::pwrite(file.get(), &total_, sizeof total_, 0);
}

void StreamFile::open_pipe(os::Fd pipe) {
  pipe_ = std::move(pipe);
  at_end_ = false;
  os::set_nonblocking(pipe_);
}

void StreamFile::open_terminal(os::Fd master, os::Fd pipe, os::Fd relay) {
  open_pipe(std::move(pipe));
  terminal_ = std::move(master);
  relay_ = std::move(relay);
  os::set_nonblocking(terminal_);
  os::set_nonblocking(relay_);
}

// Neither a file can be filled from a terminal in one system call, nor can what was read be given
// back; a pipe can. True: there is something in it.
bool StreamFile::feed() {
  const ssize_t n =
      ::splice(terminal_.get(), nullptr, relay_.get(), nullptr, kFeed, SPLICE_F_NONBLOCK);
  if (n > 0) return true;
  // EIO is how a terminal ends.
  if (n == 0 || (errno != EAGAIN && errno != EINTR)) at_end_ = true;
  return false;
}

bool StreamFile::open_file() {
  if (file_) return true;
  if (!on_disk_) (void)::rename(spare_file(fs::path{path_}.parent_path()).c_str(), path_.c_str());
  os::Fd file{::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!file) return false;
  on_disk_ = true;
  file_ = std::make_shared<const os::Fd>(std::move(file));
  return true;
}

std::shared_ptr<const os::Fd> StreamFile::opened() const {
  if (file_) return file_;
  const int fd = check(::open(path_.c_str(), O_RDONLY | O_CLOEXEC), "open output");
  return std::make_shared<const os::Fd>(fd);
}

// Fewer and longer turns for a program that prints without end. If its user has too many such
// pipes already, it stays as it is.
void StreamFile::widen_pipe() {
  if (std::exchange(widened_, true) || terminal_) return;
  (void)::fcntl(pipe_.get(), F_SETPIPE_SZ, kWidePipe);
}

// In one system call from the pipe into the file: no moment in which only we have the bytes.
ssize_t StreamFile::move_to_file() {
  const std::size_t room = std::min<std::uint64_t>(limits_.stored.count - stored_, kMove);
  loff_t at = static_cast<loff_t>(stored_);
  if (!file_) {
    // Most commands print nothing on a stream: no file for that.
    pollfd poll{pipe_.get(), POLLIN, 0};
    ::poll(&poll, 1, 0);
    if (!(poll.revents & POLLIN)) {
      errno = EAGAIN;
      return poll.revents & POLLHUP ? 0 : -1;
    }
  }
  if (!open_file()) return -1;
  const ssize_t n = ::splice(pipe_.get(), nullptr, file_->get(), &at, room, SPLICE_F_NONBLOCK);
  if (n > 0) stored_ += static_cast<std::uint64_t>(n);
  return n;
}

// Beyond what is stored only the newest bytes are kept.
ssize_t StreamFile::pass_by() {
  char buffer[64 << 10];
  const ssize_t n = ::read(pipe_.get(), buffer, sizeof buffer);
  if (n > 0) keep_newest({buffer, static_cast<std::size_t>(n)});
  return n;
}

void StreamFile::keep_newest(std::string_view bytes) {
  const std::size_t keep = limits_.inline_bytes.count / 2;
  tail_.append(bytes);
  if (tail_.size() > 2 * keep) tail_.erase(0, tail_.size() - keep);
}

void StreamFile::append(std::uint64_t offset, std::string_view bytes) {
  if (offset + bytes.size() <= total_) return;
  if (offset < total_) bytes.remove_prefix(total_ - offset);
  // Bytes that nobody has any more: what follows does not belong right behind what is kept.
  if (offset > total_) limits_.stored.count = stored_;
  total_ = std::max(total_, offset);
  total_ += bytes.size();
  const std::uint64_t limit = limits_.stored.count;
  const std::size_t room =
      std::min<std::uint64_t>(limit > stored_ ? limit - stored_ : 0, bytes.size());
  std::size_t done = 0;
  while (done < room && open_file()) {
    const ssize_t n =
        ::pwrite(file_->get(), bytes.data() + done, room - done, static_cast<off_t>(stored_));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    stored_ += static_cast<std::uint64_t>(n);
    done += static_cast<std::size_t>(n);
  }
  if (done == bytes.size()) return;
  limits_.stored.count = stored_;  // no room, no descriptor: go on in memory
  keep_newest(bytes.substr(done));
  save_total();
}

bool StreamFile::peek() {
  if (terminal_ || !pipe_ || at_end_ || total_ > 0) return false;
  pollfd poll{pipe_.get(), POLLIN, 0};
  ::poll(&poll, 1, 0);
  int size = 0;
  if (poll.revents & POLLIN && ::ioctl(pipe_.get(), FIONREAD, &size) != 0) return false;
  if (size > kMostPeeked || static_cast<std::uint64_t>(size) > limits_.stored.count) return false;
  if (size > 0 && !copy_from_pipe(static_cast<std::size_t>(size))) return false;
  total_ = peeked_.size();
  at_end_ = poll.revents & POLLHUP;  // nobody had it any more before we looked how much is in it
  return true;
}

bool StreamFile::copy_from_pipe(std::size_t size) {
  const Scratch pipe;
  if (!pipe.in) return false;
  const ssize_t copied = ::tee(pipe_.get(), pipe.in.get(), size, SPLICE_F_NONBLOCK);
  if (copied != static_cast<ssize_t>(size)) return false;
  peeked_.resize(size);
  if (::read(pipe.out.get(), peeked_.data(), size) == copied) return true;
  peeked_.clear();
  return false;
}

void StreamFile::forget_peeked() {
  if (peeked_.empty()) return;
  peeked_ = {};
  total_ = 0;
  at_end_ = false;
}

std::uint64_t StreamFile::drain() {
  std::uint64_t moved = 0;
  if (!pipe_) return 0;
  forget_peeked();
  while (!at_end_ && moved < kMove) {
    const bool full = stored_ >= limits_.stored.count;
    const ssize_t n = full ? pass_by() : move_to_file();
    if (n > 0) {
      moved += static_cast<std::uint64_t>(n);
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n < 0 && errno == EAGAIN) {
      if (!terminal_ || !feed()) break;
    } else if (n < 0 && !full && errno != EPIPE) {
      limits_.stored.count = stored_;  // no room, no descriptor: go on in memory
    } else {
      at_end_ = true;
    }
  }
  total_ += moved;
  if (moved >= kBusy && !at_end_) widen_pipe();
  if (moved > 0 && total_ > stored_) save_total();
  return moved;
}

std::string StreamFile::read(std::uint64_t offset, std::size_t limit) const {
  if (!peeked_.empty()) return offset < total_ ? peeked_.substr(offset, limit) : std::string{};
  if (offset >= stored_) {
    const std::uint64_t begin = total_ - tail_.size();
    return offset >= begin && offset < total_ ? tail_.substr(offset - begin, limit) : std::string{};
  }
  std::string text(std::min<std::uint64_t>(limit, stored_ - offset), '\0');
  const std::shared_ptr<const os::Fd> file = opened();
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::pread(file->get(), text.data() + done, text.size() - done,
                              static_cast<off_t>(offset + done));
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  text.resize(done);
  return text;
}

std::optional<FilePart> StreamFile::find(std::uint64_t offset, std::size_t limit) const {
  if (offset >= stored_) return std::nullopt;
  const std::size_t size = std::min<std::uint64_t>(limit, stored_ - offset);
  if (size < kWorthFinding) return std::nullopt;
  const std::shared_ptr<const os::Fd> file = opened();
  return FilePart{file->get(), offset, size, file};
}

std::uint64_t StreamFile::next_readable(std::uint64_t offset) const {
  return offset < readable() ? offset : std::max(offset, total_ - tail_.size());
}

Captured StreamFile::captured() const {
  const std::uint64_t whole = limits_.inline_bytes.count;
  Captured captured;
  captured.total = total_;
  if (total_ == 0) return captured;
  if (total_ <= whole && total_ == readable() + tail_.size()) {
    captured.text = read(0, readable()) + tail_;
    return captured;
  }
  const std::uint64_t half = whole / 2;
  captured.truncated = true;
  captured.text = read(0, half);
  std::string tail = tail_.substr(tail_.size() > half ? tail_.size() - half : 0);
  if (tail.size() < half && readable() > half) {
    const std::uint64_t more = std::min(half - tail.size(), readable() - half);
    tail.insert(0, read(readable() - more, more));
  }
  captured.text += gap_line(total_ - captured.text.size() - tail.size()) + tail;
  return captured;
}

}  // namespace tb::box

// SPDX-License-Identifier: Apache-2.0
#include "audit/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/log.h"
#include "base/quiet_thread.h"

namespace tb::audit {
namespace {

constexpr std::size_t kTail = 256 << 10;  // bytes in which the last line is looked for
constexpr std::size_t kPiece = 1 << 20;   // bytes of a write
constexpr std::size_t kHurry = 4096;      // entries that don't wait for company

std::uint64_t weight(const Entry& entry) {
  return sizeof entry + entry.action.size() + entry.target.size() + entry.thread.size() +
         entry.user.size() + (entry.command ? entry.command->size() : 0);
}

// Of the last whole line; empty: there is none.
std::optional<std::uint64_t> last_number(const std::string& tail) {
  constexpr std::string_view kBegin = "{\"number\":";
  std::size_t end = tail.rfind('\n');
  while (end != std::string::npos && end > 0) {
    const std::size_t before = tail.rfind('\n', end - 1);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    const std::string_view line = std::string_view{tail}.substr(begin, end - begin);
    std::uint64_t number = 0;
    if (line.starts_with(kBegin) &&
        std::from_chars(line.data() + kBegin.size(), line.data() + line.size(), number).ec ==
            std::errc{}) {
      return number;
    }
    end = before;
  }
  return std::nullopt;
}

std::string read_tail(int fd, std::uint64_t size) {
  const std::uint64_t begin = size > kTail ? size - kTail : 0;
  std::string tail(size - begin, '\0');
  const ssize_t got = ::pread(fd, tail.data(), tail.size(), static_cast<off_t>(begin));
  tail.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return tail;
}

}  // namespace

std::string file_path(const std::string& dir, unsigned number) {
  const std::string newest = dir + "/audit.jsonl";
  return number == 0 ? newest : newest + "." + std::to_string(number);
}

Log::Log(Settings settings, Redactor redactor)
    : settings_(std::move(settings)), redactor_(std::move(redactor)) {
  open_newest();
  if (number_ == 0) {  // it may have been renamed just before a crash
    const os::Fd before{::open(file_path(settings_.dir, 1).c_str(), O_RDONLY | O_CLOEXEC)};
    struct stat info{};
    if (before.get() >= 0 && ::fstat(before.get(), &info) == 0) {
      const auto size = static_cast<std::uint64_t>(info.st_size);
      number_ = last_number(read_tail(before.get(), size)).value_or(0);
    }
  }
  thread_ = start_without_signals([this] { work(); });
}

Log::~Log() { close(); }

// ---- On the loop's thread. ----

void Log::write(Entry entry) {
  const std::lock_guard lock{mutex_};
  if (closing_) return;
  const std::uint64_t bytes = weight(entry);
  if (waiting_.size() >= settings_.queue || waiting_bytes_ + bytes > settings_.queue_bytes.count) {
    ++counts_.lost;
    return;
  }
  waiting_bytes_ += bytes;
  waiting_.push_back(std::move(entry));
  ++entered_;
  // The first wakes it, which then waits for company; so do many.
  if (waiting_.size() == 1 || waiting_.size() == kHurry) wake_.notify_one();
}

void Log::flush(Milliseconds limit) {
  std::unique_lock lock{mutex_};
  const std::uint64_t wanted = entered_;
  hurry_ = true;
  wake_.notify_one();
  done_.wait_for(lock, limit, [&] { return finished_ >= wanted; });
}

void Log::close() {
  {
    const std::lock_guard lock{mutex_};
    closing_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Log::Counts Log::counts() const {
  const std::lock_guard lock{mutex_};
  return counts_;
}

// ---- On the thread of its own. ----

void Log::work() {
  for (bool last = false; !last;) {
    std::vector<Entry> batch = next_batch();
    {
      const std::lock_guard lock{mutex_};
      last = closing_;
    }
    write_batch(std::move(batch));
  }
  // What came between the last batch and the end.
  write_batch(next_batch());
  if (file_.get() >= 0) ::fsync(file_.get());
}

std::vector<Entry> Log::next_batch() {
  std::unique_lock lock{mutex_};
  wake_.wait(lock, [&] { return closing_ || hurry_ || !waiting_.empty(); });
  wake_.wait_for(lock, settings_.linger,
                 [&] { return closing_ || hurry_ || waiting_.size() >= kHurry; });
  hurry_ = false;
  waiting_bytes_ = 0;
  return std::exchange(waiting_, {});
}

void Log::write_batch(std::vector<Entry> batch) {
  std::string problem;
  std::uint64_t written = 0;
  std::string bytes;
  std::uint64_t in_bytes = 0;
  const std::uint64_t before = number_;
  const auto put = [&] {
    if (in_bytes == 0 || !problem.empty()) return;
    problem = attempt(bytes);
    if (problem.empty()) written += in_bytes;
    bytes.clear();
    in_bytes = 0;
  };
  for (Entry& entry : batch) {
    if (!problem.empty()) break;
    if (entry.command) entry.command = redactor_.redact(std::move(*entry.command));
    bytes += to_line(entry, ++number_);
    ++in_bytes;
    if (bytes.size() >= kPiece) put();
  }
  put();
  // Lines that were not written have no number: there is no gap, but a line that says so.
  if (!problem.empty()) number_ = before + written;
  {
    const std::lock_guard lock{mutex_};
    counts_.written += written;
    counts_.lost += batch.size() - written;
    finished_ += batch.size();
  }
  if (problem.empty()) tell_losses();
  tell(problem);
  done_.notify_all();
}

// A line of the log itself says how many are missing before it.
void Log::tell_losses() {
  std::uint64_t lost = 0;
  std::string why;
  {
    const std::lock_guard lock{mutex_};
    lost = counts_.lost - told_lost_;
    why = counts_.problem.empty() ? "more came than could be written" : counts_.problem;
  }
  if (lost == 0) return;
  const std::string line = lost_line(std::chrono::system_clock::now(), number_ + 1, lost, why);
  if (!attempt(line).empty()) return;
  ++number_;
  told_lost_ += lost;
}

// Returns what went wrong; then nothing of `bytes` is in the file.
std::string Log::attempt(const std::string& bytes) {
  try {
    if (file_.get() < 0) open_newest();
    if (size_ > 0 && size_ + bytes.size() > settings_.max_bytes.count) rotate();
    append(bytes);
    return {};
  } catch (const std::exception& error) {
    file_.reset();
    return error.what();
  }
}

void Log::append(const std::string& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t put = ::write(file_.get(), bytes.data() + at, bytes.size() - at);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      const int number = put < 0 ? errno : ENOSPC;
      // Half a line must not stay in front of a whole one.
      if (::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) {
        log(LogLevel::warning, "audit_torn", {{"path", file_path(settings_.dir, 0)}});
      }
      throw SystemError{number, "write " + file_path(settings_.dir, 0)};
    }
    at += static_cast<std::size_t>(put);
  }
  size_ += bytes.size();
}

void Log::open_newest() {
  const std::string path = file_path(settings_.dir, 0);
  constexpr int kFlags = O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  file_ = os::Fd{check(::open(path.c_str(), kFlags, 0600), "open " + path)};
  struct stat info{};
  check(::fstat(file_.get(), &info), "fstat " + path);
  size_ = static_cast<std::uint64_t>(info.st_size);
  const std::string tail = read_tail(file_.get(), size_);
  number_ = std::max(number_, last_number(tail).value_or(0));
  // A server that died in the middle of a line: the line ends here, and who reads passes over it.
  if (!tail.empty() && tail.back() != '\n') append("\n");
}

void Log::rotate() {
  ::fsync(file_.get());
  file_.reset();
  ::unlink(file_path(settings_.dir, settings_.keep).c_str());
  for (unsigned number = settings_.keep; number > 0; --number) {
    const std::string from = file_path(settings_.dir, number - 1);
    const std::string to = file_path(settings_.dir, number);
    if (::rename(from.c_str(), to.c_str()) != 0 && errno != ENOENT) {
      throw SystemError{errno, "rename " + from};
    }
  }
  if (settings_.keep == 0) ::unlink(file_path(settings_.dir, 0).c_str());
  open_newest();
}

void Log::tell(const std::string& problem) {
  std::string before;
  std::uint64_t lost = 0;
  {
    const std::lock_guard lock{mutex_};
    before = std::exchange(counts_.problem, problem);
    lost = counts_.lost;
  }
  if (before.empty() && !problem.empty()) {
    log(LogLevel::error, "audit_failing", {{"why", problem}});
  } else if (!before.empty() && problem.empty()) {
    log(LogLevel::warning, "audit_healed", {{"lost", std::to_string(lost), true}});
  }
}

}  // namespace tb::audit

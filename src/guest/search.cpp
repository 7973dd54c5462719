// SPDX-License-Identifier: Apache-2.0
// Lines of files that match, read piece by piece: neither a file nor a line has to fit in memory.
#include <fcntl.h>
#include <linux/openat2.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "guest/operations.h"
#include "guest/tree.h"
#include "guest/walk.h"
#include "match/glob.h"
#include "match/regex.h"

namespace tb::guest::files {
namespace {

constexpr std::size_t kPiece = 64 << 10;
constexpr std::size_t kSlice = 4 << 10;  // the worst pattern takes a tenth of a millisecond a byte
constexpr std::size_t kTextAtFirst = 8 << 10;  // a NUL in the first bytes: not a text
constexpr auto kLongest = std::chrono::seconds{10};

class Search {
 public:
  Search(const OperationRequest& request, const Workplace& place)
      : request_(request), place_(place), teller_(place.socket) {}

  bool run() {
    std::string mistake;
    match::RegexOptions options;
    options.ignore_case = request_.has(OperationRequest::ignore_case);
    options.literal = !request_.has(OperationRequest::regex);
    chooses_ = !request_.glob.empty();
    if (!match::Regex::compile(request_.text, options, regex_, mistake) ||
        (chooses_ && !match::Glob::compile(request_.glob, glob_, mistake))) {
      return teller_.send(refuse_operation(Reason::bad_pattern, 0, mistake));
    }
    const bool could = search_path();
    if (!heard_) return false;
    if (!could) return teller_.send(refuse_by_errno());
    return teller_.flush() && teller_.send(end_);
  }

 private:
  // A file, or all files below a directory.
  bool search_path() {
    const File top{open_beneath(place_.root, request_.path.empty() ? "." : request_.path,
                                O_RDONLY | O_NONBLOCK | O_NOCTTY)};
    struct stat info{};
    if (!top || ::fstat(top.fd, &info) != 0) return false;
    if (!S_ISDIR(info.st_mode)) {
      if (!S_ISREG(info.st_mode)) return errno = ENXIO, false;
      search_file(top.fd, request_.path);
      return true;
    }
    const std::string prefix = request_.path.empty() ? "" : request_.path + "/";
    Walk walk{top.fd, true};
    const bool could = walk.run([&](const Visit& visit) {
      if (S_ISREG(visit.info.st_mode) && wanted(visit)) {
        const File file{open_beneath(visit.directory, visit.name,
                                     O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0,
                                     RESOLVE_NO_SYMLINKS)};
        struct stat now{};
        if (file && ::fstat(file.fd, &now) == 0 && S_ISREG(now.st_mode)) {
          search_file(file.fd, prefix + visit.path);
        } else {
          end_.complete = 0;
        }
      }
      return go_on() ? Next::below : Next::stop;
    });
    if (!walk.complete()) end_.complete = 0;
    return could;
  }

  bool wanted(const Visit& visit) const {
    if (!chooses_) return true;
    return glob_.matches(glob_.has_directories() ? visit.path : std::string{visit.name});
  }

  bool go_on() {
    heard_ = heard_ && teller_.tick();
    if (std::chrono::steady_clock::now() - began_ > kLongest) {
      end_.complete = 0;
      full_ = true;
    }
    return heard_ && !full_;
  }

  void search_file(int fd, const std::string& path) {
    static char buffer[kPiece];
    line_ = 0;
    begin_line();
    bool first = true;
    for (off_t at = 0;;) {
      const ssize_t got = ::pread(fd, buffer, sizeof buffer, at);
      if (got < 0) end_.complete = 0;
      if (got <= 0) break;
      at += got;
      std::string_view piece{buffer, static_cast<std::size_t>(got)};
      if (first && piece.substr(0, kTextAtFirst).find('\0') != std::string_view::npos) return;
      if (first) ++end_.files;
      first = false;
      for (; !piece.empty(); piece.remove_prefix(std::min(kSlice, piece.size()))) {
        if (!go_on() || !search_piece(piece.substr(0, kSlice), path)) return;
      }
    }
    if (held_) feed("\r", false);
    if (begun_ && (found_ || regex_.finish())) take(path);
  }

  bool search_piece(std::string_view piece, const std::string& path) {
    while (!piece.empty()) {
      if (held_ && piece.front() != '\n') feed("\r", false);
      held_ = false;
      const void* newline = std::memchr(piece.data(), '\n', piece.size());
      const std::size_t size =
          newline ? static_cast<std::size_t>(static_cast<const char*>(newline) - piece.data())
                  : piece.size();
      std::string_view part = piece.substr(0, size);
      piece.remove_prefix(size);
      if (part.ends_with('\r')) {
        part.remove_suffix(1);
        held_ = !newline;  // it may belong to the end of the line, which the next piece begins with
      }
      feed(part, newline);
      if (!newline) return true;
      piece.remove_prefix(1);
      if (found_ && !take(path)) return false;
      begin_line();
    }
    return true;
  }

  // More of the line, or its last part.
  void feed(std::string_view part, bool ends) {
    begun_ = true;
    found_ = found_ || regex_.feed(part) || (ends && regex_.finish());
    if (!found_ && ends) return;
    shown_.append(part.substr(0, kMaxShown - std::min(shown_.size(), kMaxShown)));
  }

  void begin_line() {
    ++line_;
    shown_.clear();
    found_ = begun_ = held_ = false;
    regex_.restart();
  }

  bool take(const std::string& path) {
    if (taken_ == request_.most) {
      end_.complete = 0;
      full_ = true;
      return false;
    }
    ++taken_;
    Item item;
    item.entry.name = path;
    item.line = line_;
    item.text = shown_;
    heard_ = heard_ && teller_.add(std::move(item));
    return heard_;
  }

  const OperationRequest& request_;
  const Workplace& place_;
  Teller teller_;
  match::Regex regex_;
  match::Glob glob_;
  bool chooses_ = false;
  OperationAnswer end_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  bool heard_ = true;
  bool full_ = false;
  bool begun_ = false;  // the line has a byte, or its end
  bool found_ = false;
  bool held_ = false;  // a \r that was the last byte so far
  std::uint64_t taken_ = 0;
  std::uint64_t line_ = 0;
  std::string shown_;  // the beginning of the line
};

}  // namespace

bool search_lines(const OperationRequest& request, const Workplace& place) {
  return Search{request, place}.run();
}

}  // namespace tb::guest::files

// SPDX-License-Identifier: Apache-2.0
#include "audit/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "audit/log.h"
#include "base/iso8601.h"
#include "os/fd.h"

namespace tb::audit {
namespace json = boost::json;
namespace {

constexpr std::size_t kPiece = 256 << 10;
constexpr std::size_t kMaxLine = 4 << 20;

// The lines of a file from its end to its beginning, in bounded memory.
class Backwards {
 public:
  explicit Backwards(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) {
    struct stat info{};
    if (fd_.get() >= 0 && ::fstat(fd_.get(), &info) == 0) {
      left_ = static_cast<std::uint64_t>(info.st_size);
    }
  }

  // Without its newline. False: there is no more.
  bool next(std::string& line) {
    for (;;) {
      const std::size_t end = text_.rfind('\n');
      if (end != std::string::npos) {
        line = text_.substr(end + 1);
        text_.resize(end);
        if (!line.empty()) return true;
        continue;
      }
      if (left_ == 0 || text_.size() > kMaxLine) break;
      read_more();
    }
    line = std::exchange(text_, {});
    return !line.empty();
  }

 private:
  void read_more() {
    const std::uint64_t size = std::min<std::uint64_t>(kPiece, left_);
    std::string piece(size, '\0');
    const ssize_t got = ::pread(fd_.get(), piece.data(), size, static_cast<off_t>(left_ - size));
    if (got != static_cast<ssize_t>(size)) piece.clear();
    left_ = piece.empty() ? 0 : left_ - size;
    text_.insert(0, piece);
  }

  os::Fd fd_;
  std::uint64_t left_ = 0;
  std::string text_;
};

std::string text_of(const json::object& entry, const char* name) {
  const json::value* value = entry.if_contains(name);
  return value && value->is_string() ? std::string{value->get_string()} : std::string{};
}

// As each line begins. Empty: it is torn.
std::optional<std::uint64_t> number_of(std::string_view line) {
  constexpr std::string_view kBegin = "{\"number\":";
  if (!line.starts_with(kBegin)) return std::nullopt;
  std::uint64_t number = 0;
  const char* const end = line.data() + line.size();
  const bool good = std::from_chars(line.data() + kBegin.size(), end, number).ec == std::errc{};
  return good ? std::optional{number} : std::nullopt;
}

// All of it is newer than what is asked for.
bool is_beyond(const std::string& path, std::uint64_t before) {
  const os::Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  char head[64];
  const ssize_t got = file ? ::pread(file.get(), head, sizeof head, 0) : 0;
  if (got <= 0) return false;
  const auto first = number_of({head, static_cast<std::size_t>(got)});
  return first && *first >= before;
}

// "POST /execute" and "/execute" both mean it.
bool is_action(const std::string& action, const std::string& wanted) {
  const std::size_t blank = action.find(' ');
  return action == wanted ||
         (blank != std::string::npos && action.compare(blank + 1, action.npos, wanted) == 0);
}

bool fits(const json::object& entry, const Query& query) {
  const auto same = [&](const char* name, const std::optional<std::string>& wanted) {
    return !wanted || text_of(entry, name) == *wanted;
  };
  if (query.until && text_of(entry, "time") > iso8601_ms(*query.until)) return false;
  if (query.action && !is_action(text_of(entry, "action"), *query.action)) return false;
  return same("session", query.session) && same("tenant", query.tenant) &&
         same("result", query.result);
}

}  // namespace

Page read_back(const std::string& dir, unsigned keep, const Query& query) {
  Page page;
  std::uint64_t looked_at = 0;
  std::uint64_t last = query.before.value_or(UINT64_MAX);  // number of the line before this one
  const std::string since = query.since ? iso8601_ms(*query.since) : "";
  for (unsigned file_number = 0; file_number <= keep; ++file_number) {
    const std::string path = file_path(dir, file_number);
    if (is_beyond(path, last)) continue;
    Backwards file{path};
    std::string line;
    while (file.next(line)) {
      const std::optional<std::uint64_t> number = number_of(line);
      // What is newer than asked for, or seen again because its file was renamed meanwhile.
      if (!number || *number >= last) continue;
      if (page.entries.size() >= query.limit || looked_at > query.most.count) {
        page.next = last;
        return page;
      }
      boost::system::error_code torn;
      const json::value value = json::parse(line, torn);
      if (torn || !value.is_object()) continue;
      looked_at += line.size();
      last = *number;
      const json::object& entry = value.get_object();
      if (query.since && text_of(entry, "time") < since) return page;
      if (fits(entry, query)) page.entries.push_back(entry);
    }
  }
  return page;
}

}  // namespace tb::audit

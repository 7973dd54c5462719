// SPDX-License-Identifier: Apache-2.0
#include "http/head_scanner.h"

#include <cstring>

#include "http/chars.h"
#include "http/message.h"

namespace tb::http {
namespace {

[[noreturn]] void bad(const char* text) { throw HttpError{400, text}; }
[[noreturn]] void line_too_long() { throw HttpError{414, "The request line is too long"}; }
[[noreturn]] void head_too_large() { throw HttpError{431, "The request headers are too large"}; }

void check_version(std::string_view version) {
  const bool shaped = version.size() == 8 && version.starts_with("HTTP/") && is_digit(version[5]) &&
                      version[6] == '.' && is_digit(version[7]);
  if (!shaped) bad("The request line has no HTTP version");
  if (version[5] != '1' || version[7] > '1') {
    throw HttpError{505, "This server speaks HTTP/1.1 and HTTP/1.0"};
  }
}

// method SP target SP version, with single spaces.
void check_request_line(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == line.npos || first == last) bad("The request line has not three parts");
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  if (method.empty() || !all_in(kTokenChars, method)) bad("The method is not a token");
  if (target.empty() || !all_in(kTargetChars, target)) bad("The request target is not a URL");
  check_version(line.substr(last + 1));
}

void check_field_line(std::string_view line) {
  const std::size_t colon = line.find(':');
  // A space before the name (a folded line) or before the colon fails here: it is no token.
  if (colon == line.npos || colon == 0 || !all_in(kTokenChars, line.substr(0, colon))) {
    bad("A header line has no proper name");
  }
  if (!all_in(kValueChars, line.substr(colon + 1))) bad("A header has a control character");
}

}  // namespace

void HeadScanner::reset() {
  line_start_ = 0;
  scanned_ = 0;
  fields_ = 0;
  in_fields_ = false;
}

void HeadScanner::check_line(std::string_view line) {
  if (!in_fields_) {
    if (line.size() > limits_.request_line) line_too_long();
    check_request_line(line);
    in_fields_ = true;
    return;
  }
  if (++fields_ > limits_.fields) throw HttpError{431, "The request has too many headers"};
  check_field_line(line);
}

// What will never become a good head is refused before its line is complete.
void HeadScanner::check_unfinished(std::string_view bytes) const {
  if (!bytes.empty() && !in(kTokenChars, bytes[0])) bad("The method is not a token");
  if (!in_fields_ && bytes.size() > limits_.request_line) line_too_long();
  if (bytes.size() > limits_.total) head_too_large();
}

std::size_t HeadScanner::scan(std::string_view bytes) {
  while (scanned_ < bytes.size()) {
    const char* start = bytes.data() + scanned_;
    const auto* feed = static_cast<const char*>(std::memchr(start, '\n', bytes.size() - scanned_));
    if (!feed) break;
    const auto end = static_cast<std::size_t>(feed - bytes.data());
    if (end + 1 > limits_.total) head_too_large();
    if (end == line_start_ || bytes[end - 1] != '\r') bad("A line ends without CR LF");
    const std::string_view line = bytes.substr(line_start_, end - 1 - line_start_);
    line_start_ = scanned_ = end + 1;
    if (line.empty() && in_fields_) return scanned_;
    check_line(line);
  }
  scanned_ = bytes.size();
  check_unfinished(bytes);
  return 0;
}

}  // namespace tb::http

// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <time.h>
#include <unistd.h>

#include <cstdio>

#include "base/utf8.h"

namespace tb {
namespace {

LogLevel threshold = LogLevel::info;
bool as_json = false;

constexpr const char* kNames[] = {"debug", "info", "warning", "error", "off"};

std::string timestamp() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::gmtime_r(&now.tv_sec, &parts);
  char text[40];
  const std::size_t n = ::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + n, sizeof text - n, ".%03ldZ", now.tv_nsec / 1000000);
  return text;
}

// The code point of a character of two or three bytes; 0 for all others.
unsigned code_point(std::string_view rest) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(rest[i]) & 0x3fu; };
  const auto first = static_cast<unsigned char>(rest[0]);
  if (first >= 0xc0 && first < 0xe0) return (first & 0x1fu) << 6 | at(1);
  if (first >= 0xe0 && first < 0xf0) return (first & 0x0fu) << 12 | at(1) << 6 | at(2);
  return 0;
}

// Beside ASCII's: the control characters of C1, which terminals obey, the separators of lines and
// paragraphs, and what changes the direction of the text that follows.
bool is_control(unsigned c) {
  return (c >= 0x80 && c < 0xa0) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

void append_escaped(std::string& out, unsigned c) {
  char text[8];
  std::snprintf(text, sizeof text, "\\u%04x", c);
  out += text;
}

// As JSON wants it; harmless in the other format too.
std::string escape(std::string_view bytes) {
  const std::string value = to_utf8(std::string{bytes});
  std::string out;
  out.reserve(value.size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto byte = static_cast<unsigned char>(value[i]);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += value[i];
    } else if (byte < 0x20 || byte == 0x7f) {
      append_escaped(out, byte);
    } else if (const unsigned c = code_point(std::string_view{value}.substr(i)); is_control(c)) {
      append_escaped(out, c);
      i += c < 0x800 ? 1 : 2;
    } else {
      out += value[i];
    }
  }
  return out;
}

std::string field_text(const LogField& field) {
  const std::string value = escape(field.value);
  // What is escaped is quoted too, so that a reader knows where to undo it.
  const bool quote = value.empty() || value.find_first_of(" \"=\\") != std::string::npos;
  return std::string{field.key} + "=" + (quote ? "\"" + value + "\"" : value);
}

std::string field_json(const LogField& field) {
  const std::string value = field.number ? field.value : "\"" + escape(field.value) + "\"";
  return ",\"" + std::string{field.key} + "\":" + value;
}

}  // namespace

void set_log(LogLevel level, bool json) {
  threshold = level;
  as_json = json;
}

void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  log(level, event, std::span{fields.begin(), fields.size()});
}

void log(LogLevel level, std::string_view event, std::span<const LogField> fields) {
  if (level < threshold) return;
  std::string line;
  if (as_json) {
    line = "{\"time\":\"" + timestamp() + "\",\"level\":\"" + kNames[static_cast<int>(level)] +
           "\",\"event\":\"" + escape(event) + "\"";
    for (const LogField& field : fields) line += field_json(field);
    line += "}\n";
  } else {
    line = timestamp() + " [SANDBOX] event=" + std::string{event};
    for (const LogField& field : fields) line += " " + field_text(field);
    line += "\n";
  }
  (void)!::write(2, line.data(), line.size());  // one write: lines of two servers don't mix
}

}  // namespace tb

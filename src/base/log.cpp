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

// As JSON wants it; harmless in the other format too.
std::string escape(std::string_view bytes) {
  const std::string value = to_utf8(std::string{bytes});
  std::string out;
  out.reserve(value.size());
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      char text[8];
      std::snprintf(text, sizeof text, "\\u%04x", byte);
      out += text;
    } else {
      out += c;
    }
  }
  return out;
}

std::string field_text(const LogField& field) {
  const bool quote = field.value.empty() || field.value.find_first_of(" \"=") != std::string::npos;
  const std::string value = escape(field.value);
  return std::string{field.key} + "=" + (quote ? "\"" + value + "\"" : value);
}

}  // namespace

void set_log(LogLevel level, bool json) {
  threshold = level;
  as_json = json;
}

void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (level < threshold) return;
  std::string line;
  if (as_json) {
    line = "{\"time\":\"" + timestamp() + "\",\"level\":\"" + kNames[static_cast<int>(level)] +
           "\",\"event\":\"" + escape(event) + "\"";
    for (const LogField& field : fields) {
      line += ",\"" + std::string{field.key} + "\":\"" + escape(field.value) + "\"";
    }
    line += "}\n";
  } else {
    line = timestamp() + " [SANDBOX] event=" + std::string{event};
    for (const LogField& field : fields) line += " " + field_text(field);
    line += "\n";
  }
  (void)!::write(2, line.data(), line.size());  // one write: lines of two servers don't mix
}

}  // namespace tb

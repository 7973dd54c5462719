// SPDX-License-Identifier: Apache-2.0
#include "audit/entry.h"

#include <cstdio>
#include <ctime>

#include "base/iso8601.h"
#include "base/utf8.h"

namespace tb::audit {
namespace {

constexpr std::size_t kMaxText = 1024;      // characters
constexpr std::size_t kMaxCommand = 16384;  // characters

void append_code(std::string& out, unsigned code) {
  char text[8];
  std::snprintf(text, sizeof text, "\\u%04x", code);
  out += text;
}

// Characters of two or three bytes that move a terminal or turn the direction of what follows: C1
// controls, separators of lines, marks and overrides of direction. 0: it is none.
unsigned odd_character(std::string_view rest) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(rest[i]); };
  if (rest.size() >= 2 && byte(0) == 0xc2 && byte(1) < 0xa0) return byte(1);
  if (rest.size() < 3 || byte(0) != 0xe2 || (byte(1) != 0x80 && byte(1) != 0x81)) return 0;
  const unsigned code = 0x2000 + ((byte(1) & 0x3fu) << 6) + (byte(2) & 0x3fu);
  const bool odd = (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
                   (code >= 0x2066 && code <= 0x2069);
  return odd ? code : 0;
}

void append_text(std::string& out, std::string_view text, std::size_t most) {
  const std::string good = to_utf8(std::string{first_characters(text, most)});
  out += '"';
  for (std::size_t at = 0; at < good.size();) {
    const auto c = static_cast<unsigned char>(good[at]);
    const unsigned odd = c >= 0xc2 ? odd_character(std::string_view{good}.substr(at)) : 0;
    if (odd != 0) {
      append_code(out, odd);
      at += c == 0xc2 ? 2 : 3;
      continue;
    }
    if (c == '"' || c == '\\') {
      out += '\\';
      out += good[at];
    } else if (c < 0x20 || c == 0x7f) {
      append_code(out, c);
    } else {
      out += good[at];
    }
    ++at;
  }
  out += '"';
}

void add(std::string& out, std::string_view name, std::string_view text,
         std::size_t most = kMaxText) {
  if (text.empty()) return;
  out.append(",\"").append(name).append("\":");
  append_text(out, text, most);
}

std::string head(WallTime at, std::uint64_t number) {
  return "{\"number\":" + std::to_string(number) + ",\"time\":\"" + iso8601_ms(at) + "\"";
}

}  // namespace

std::string_view result_of(int status) {
  if (status == 0) return "gone";
  if (status >= 500) return "failed";
  return status >= 400 ? "refused" : "ok";
}

std::string to_line(const Entry& entry, std::uint64_t number) {
  std::string line = head(entry.at, number);
  add(line, "action", entry.action);
  add(line, "result", entry.result.empty() ? result_of(entry.status) : entry.result);
  line += ",\"status\":" + std::to_string(entry.status);
  add(line, "tenant", entry.tenant);
  add(line, "key", entry.key);
  add(line, "role", entry.role);
  add(line, "via", entry.via);
  add(line, "address", entry.address);
  add(line, "forwarded_for", entry.forwarded);
  add(line, "session", entry.session);
  add(line, "thread", entry.thread);
  add(line, "user", entry.user);
  if (entry.command) {
    line += ",\"command\":";
    append_text(line, *entry.command, kMaxCommand);
    if (first_characters(*entry.command, kMaxCommand).size() < entry.command->size()) {
      line += ",\"command_truncated\":true";
    }
  }
  add(line, "target", entry.target);
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", static_cast<double>(entry.duration.count()) / 1000);
  line.append(",\"duration_ms\":").append(text);
  add(line, "request_id", entry.request);
  return line += "}\n";
}

std::string lost_line(WallTime at, std::uint64_t number, std::uint64_t count,
                      std::string_view why) {
  std::string line = head(at, number);
  add(line, "action", "audit.lost");
  line += ",\"result\":\"failed\",\"lost\":" + std::to_string(count);
  add(line, "why", why);
  return line += "}\n";
}

}  // namespace tb::audit

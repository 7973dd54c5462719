// SPDX-License-Identifier: Apache-2.0
// One line for each event: [SANDBOX] event=… key=value for people, JSON for machines (LOG_JSON=1).
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace tb {

enum class LogLevel { debug, info, warning, error, off };

struct LogField {
  std::string_view key;
  std::string value;
  bool number = false;  // in JSON without quotes; `value` must be a JSON number then
};

void set_log(LogLevel level, bool json);
// What could end a line or move a terminal's cursor is escaped in values: an event is always one
// line.
void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});
void log(LogLevel level, std::string_view event, std::span<const LogField> fields);

}  // namespace tb

// SPDX-License-Identifier: Apache-2.0
// One line for each event: [SANDBOX] event=… key=value for people, JSON for machines (LOG_JSON=1).
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace tb {

enum class LogLevel { debug, info, warning, error, off };

struct LogField {
  std::string_view key;
  std::string value;
};

void set_log(LogLevel level, bool json);
// Control characters in values are escaped: an event is always one line.
void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

}  // namespace tb

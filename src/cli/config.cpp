// SPDX-License-Identifier: Apache-2.0
#include "config_sources.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>

#include "cli/commands.h"

namespace tb::cli {
namespace {

// A variable of the environment may hold what would move the cursor.
std::string printable(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return text;
}

}  // namespace

int show_config(const std::vector<ShownSetting>& rows, bool json) {
  if (json) {
    boost::json::object all;
    for (const ShownSetting& row : rows) {
      all[row.name] = boost::json::object{{"value", row.value}, {"origin", row.origin}};
    }
    std::printf("%s\n", boost::json::serialize(all).c_str());
    return 0;
  }
  std::size_t width = 0;
  for (const ShownSetting& row : rows) width = std::max(width, row.value.size());
  for (const ShownSetting& row : rows) {
    std::printf("%-30s %-*s %s\n", row.name.c_str(), static_cast<int>(width),
                printable(row.value).c_str(), row.origin.c_str());
  }
  return 0;
}

}  // namespace tb::cli

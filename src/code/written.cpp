// SPDX-License-Identifier: Apache-2.0
#include "code/written.h"

#include <algorithm>
#include <boost/json.hpp>

namespace tb::code {
namespace {

constexpr std::size_t kMaxFiles = 20;
constexpr std::size_t kMaxPath = 1024;
constexpr std::string_view kWorkspace = "/workspace/";

bool is_plain(std::string_view path) {
  const auto odd = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; };
  const std::string whole = "/" + std::string{path} + "/";
  return whole.find("//") == whole.npos && whole.find("/./") == whole.npos &&
         whole.find("/../") == whole.npos && std::none_of(path.begin(), path.end(), odd);
}

}  // namespace

std::vector<std::string> written_files(const boost::json::object& end) {
  std::vector<std::string> files;
  const boost::json::value* value = end.if_contains("files");
  if (!value || !value->is_array()) return files;
  for (const boost::json::value& one : value->get_array()) {
    if (!one.is_string() || files.size() >= kMaxFiles) continue;
    std::string_view path = one.get_string();
    if (path.size() > kMaxPath || !path.starts_with(kWorkspace)) continue;
    path.remove_prefix(kWorkspace.size());
    if (is_plain(path)) files.emplace_back(path);
  }
  return files;
}

}  // namespace tb::code

// SPDX-License-Identifier: Apache-2.0
#include "http/request_id.h"

#include <charconv>

#include "base/id.h"
#include "http/chars.h"

namespace tb::http {
namespace {

constexpr CharTable kIdChars = make_table("._-", true);
constexpr std::size_t kMaxId = 64;
// So much of a UUID has 60 random bits.
constexpr std::size_t kPrefix = 19;

}  // namespace

RequestIds::RequestIds() : prefix_(make_uuid().substr(0, kPrefix)) {}

std::string RequestIds::choose(const Headers& headers) {
  const auto sent = headers.find("x-request-id");
  if (sent && !sent->empty() && sent->size() <= kMaxId && all_in(kIdChars, *sent)) {
    return std::string{*sent};
  }
  return make();
}

std::string RequestIds::make() {
  char digits[16];
  const char* const end = std::to_chars(digits, digits + sizeof digits, next_++, 16).ptr;
  return prefix_ + std::string(digits, static_cast<std::size_t>(end - digits));
}

}  // namespace tb::http

// SPDX-License-Identifier: Apache-2.0
// URLs of callbacks and Locations of redirects: what is read is written back as the same, and an
// address that is spelled in it was checked as what it is.
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "net/url.h"

namespace {

void check(const tb::net::Url& url) {
  const tb::net::Url again = tb::net::parse_url(url.text());
  if (again.text() != url.text() || again.port != url.port || again.host != url.host) std::abort();
  if (again.address != url.address || url.target.front() != '/') std::abort();
  if (url.host.find_first_of("@/\\# %") != url.host.npos) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  try {
    check(tb::net::parse_url(text));
  } catch (const tb::Error&) {
  }
  static const tb::net::Url base = tb::net::parse_url("https://example.org/a");
  try {
    const tb::net::Url next = tb::net::parse_redirect(base, text);
    if (next.text().size() <= tb::net::kMaxUrl) check(next);
  } catch (const tb::Error&) {
  }
  return 0;
}

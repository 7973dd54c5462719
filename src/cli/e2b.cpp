// SPDX-License-Identifier: Apache-2.0
#include "cli/e2b.h"

#include "base/error.h"
#include "net/tls.h"
#include "net/url.h"
#include "os/fd.h"

namespace tb::cli {
namespace {

constexpr std::size_t kMaxAuthorities = 4 << 20;
constexpr std::uint64_t kSpooled = 8;  // of the largest uploads may be on their way to E2B

Error wrong(const std::string& setting, const std::string& value, const std::string& why) {
  return Error{Code::invalid, "wrong settings:\n  " + setting + "=" + value + ": " + why};
}

void check_url(const std::string& setting, const std::string& value, const std::string& url) {
  try {
    net::parse_url(url);
  } catch (const Error& error) {
    throw wrong(setting, value, error.what());
  }
}

}  // namespace

std::string read_e2b_authorities(const Config& config) {
  const E2bConfig& e2b = config.e2b;
  for (const char c : e2b.key) {
    if (c <= ' ' || c > '~') throw wrong("E2B_API_KEY", "…", "is no key: it has blanks in it");
  }
  check_url("E2B_DOMAIN", e2b.domain, "https://api." + e2b.domain);
  if (e2b.domain.find_first_of("/?") != e2b.domain.npos) {
    throw wrong("E2B_DOMAIN", e2b.domain, "must be the name of a domain, such as e2b.app");
  }
  if (!e2b.api_url.empty()) check_url("E2B_API_URL", e2b.api_url, e2b.api_url);
  if (!e2b.sandbox_url.empty()) check_url("E2B_SANDBOX_URL", e2b.sandbox_url, e2b.sandbox_url);
  if (e2b.ca_file.empty()) return {};
  try {
    std::string authorities = os::read_file(e2b.ca_file, kMaxAuthorities);
    const net::Tls good{authorities.empty() ? "nothing" : authorities};
    return authorities;
  } catch (const Error& error) {
    throw wrong("E2B_CA_FILE", e2b.ca_file, error.what());
  }
}

std::unique_ptr<e2b::E2bProvider> make_e2b(asio::any_io_executor executor, const Config& config,
                                           std::string authorities) {
  if (config.e2b.key.empty()) return nullptr;
  e2b::E2bSettings settings;
  settings.api.key = config.e2b.key;
  settings.api.url = config.e2b.api_url;
  settings.api.sandbox_url = config.e2b.sandbox_url;
  settings.api.domain = config.e2b.domain;
  settings.sandbox_template = config.e2b.sandbox_template;
  settings.authorities = std::move(authorities);
  settings.state_dir = config.state_dir;
  settings.output = config.output;
  settings.spooled = config.max_file_size * kSpooled;
  return std::make_unique<e2b::E2bProvider>(executor, std::move(settings));
}

}  // namespace tb::cli

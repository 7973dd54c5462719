// SPDX-License-Identifier: Apache-2.0
#include "http/origin.h"

#include <arpa/inet.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace tb::http {
namespace {

std::optional<std::string_view> one_origin(const Request& request) {
  if (request.headers.count("Origin") != 1) return std::nullopt;
  return request.headers.find("Origin");
}

}  // namespace

bool is_own_origin(const Request& request) {
  const auto origin = one_origin(request);
  const auto host = request.headers.find("Host");
  if (!origin || !host || host->empty()) return false;
  return equal_ignoring_case(*origin, "http://" + std::string{*host}) ||
         equal_ignoring_case(*origin, "https://" + std::string{*host});
}

bool has_local_host(const Request& request) {
  const auto header = request.headers.find("Host");
  if (!header || header->empty() || header->front() == '[') return true;
  const std::string host{header->substr(0, header->find(':'))};
  in_addr address{};
  if (::inet_pton(AF_INET, host.c_str(), &address) == 1) return true;
  constexpr std::string_view kOurs = ".localhost";
  const bool below =
      host.size() > kOurs.size() &&
      equal_ignoring_case(std::string_view{host}.substr(host.size() - kOurs.size()), kOurs);
  return below || host.find('.') == host.npos;
}

bool is_listed_origin(const Request& request, const std::vector<std::string>& allowed) {
  const auto origin = one_origin(request);
  if (!origin) return false;
  return std::any_of(allowed.begin(), allowed.end(), [&](const std::string& one) {
    return one == "*" || equal_ignoring_case(one, *origin);
  });
}

bool is_listed_host(const Request& request, const std::vector<std::string>& allowed) {
  const auto host = request.headers.find("Host");
  if (!host) return false;
  return std::any_of(allowed.begin(), allowed.end(), [&](const std::string& one) {
    return equal_ignoring_case(one, "http://" + std::string{*host}) ||
           equal_ignoring_case(one, "https://" + std::string{*host});
  });
}

bool same_origin_or_allowed(const Request& request, const std::vector<std::string>& allowed) {
  if (!request.headers.find("Origin")) return true;
  return is_own_origin(request) || is_listed_origin(request, allowed);
}

}  // namespace tb::http

// SPDX-License-Identifier: Apache-2.0
#include "api/errors.h"

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "http/exchange.h"
#include "session/directory.h"
#include "session/session.h"

namespace tb::api {
namespace json = boost::json;
namespace {

int status_of(Code code) {
  switch (code) {
    case Code::invalid: return 400;
    case Code::not_found: return 404;
    case Code::conflict: return 409;
    case Code::limited: return 429;
    case Code::exhausted: return 503;
    case Code::unavailable: return 503;
    case Code::internal: return 500;
  }
  return 500;
}

const http::Header kSoon{"Retry-After", "1"};

// One line of ASCII, whatever a client made us quote.
std::string printable(std::string_view text) {
  constexpr std::size_t kMost = 1000;
  std::string line{first_characters(text, kMost)};
  for (char& c : line) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return line;
}

// `error` as the documents have it and `detail` as FastAPI would have sent it; the text also in
// the reason phrase, which is all that users of old clients get to see.
http::Response render(int status, const std::string& text, json::object body) {
  body["error"] = text;
  body["detail"] = text;
  http::Response response = http::json_response(status, json::serialize(body));
  response.reason = std::string{http::reason_phrase(status)} + ": " + printable(text);
  if (status == 503) response.headers.push_back(kSoon);
  return response;
}

json::object describe(const session::PolicyError& error) {
  const policy::Refusal& refusal = error.refusal();
  json::object more{
      {"command", first_characters(error.command(), 200)},
      {"forbidden_pattern", nullptr},
      {"position",
       {{"offset", refusal.at.offset}, {"line", refusal.at.line}, {"column", refusal.at.column}}}};
  if (refusal.pattern) more["forbidden_pattern"] = *refusal.pattern;
  return more;
}

std::vector<http::Header> rate_headers(const limits::Standing& standing) {
  // What is held has no window, which these headers are about.
  if (standing.limit == 0 || standing.window.count() == 0) return {};
  const std::string limit = std::to_string(standing.limit);
  return {{"RateLimit-Limit", limit},
          {"RateLimit-Remaining", std::to_string(standing.remaining)},
          {"RateLimit-Reset", std::to_string(standing.reset.count())},
          {"RateLimit-Policy", limit + ";w=" + std::to_string(standing.window.count())}};
}

}  // namespace

void add_rate_headers(http::Exchange& exchange, const limits::Standing& standing) {
  for (http::Header& header : rate_headers(standing)) {
    exchange.add_response_header(std::move(header.name), std::move(header.value));
  }
}

http::Response error_response(std::exception_ptr failure, const std::string& request_id) {
  try {
    std::rethrow_exception(failure);
  } catch (const Refusal& refusal) {
    return render(refusal.status(), refusal.what(), refusal.more());
  } catch (const http::HttpError& error) {
    http::Response response = render(error.status(), error.text(), {});
    for (const http::Header& header : error.headers()) response.headers.push_back(header);
    return response;
  } catch (const http::Disconnected&) {
    throw;
  } catch (const session::Elsewhere& elsewhere) {
    return render(421, elsewhere.what(),
                  {{"worker", elsewhere.worker()},
                   {"worker_url", elsewhere.url()},
                   {"session_id", elsewhere.session()}});
  } catch (const session::PolicyError& error) {
    return render(400, error.what(), describe(error));
  } catch (const limits::Exceeded& exceeded) {
    http::Response response = render(429, exceeded.what(), {});
    const limits::Standing& standing = exceeded.standing();
    const auto retry = std::max<std::int64_t>(standing.retry.count(), 1);
    response.headers.push_back({"Retry-After", std::to_string(retry)});
    // Of another quota the answer tells how it stands with requests, as every answer does.
    const bool first = exceeded.quota() == name_of(limits::Flow::requests) ||
                       exceeded.quota() == name_of(limits::Flow::bytes);
    if (!first) return response;
    for (http::Header& header : rate_headers(standing)) {
      response.headers.push_back(std::move(header));
    }
    return response;
  } catch (const Error& error) {
    if (error.code() != Code::internal) {
      http::Response response = render(status_of(error.code()), error.what(), {});
      if (error.code() == Code::limited) response.headers.push_back(kSoon);
      return response;
    }
    // What went wrong inside is for the log; the caller gets a name to ask for it.
    log(LogLevel::error, "internal_error", {{"reference", request_id}, {"error", error.what()}});
    return render(500, "Internal server error", {{"reference", request_id}});
  }
}

}  // namespace tb::api

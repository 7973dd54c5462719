// SPDX-License-Identifier: Apache-2.0
// The API described by itself: /openapi.json, /docs to try it and /redoc to read it. Everything is
// in the binary, so it works without a network.
#include <boost/json.hpp>

#include "api/service.h"
#include "api/web_files.h"
#include "base/error.h"
#include "base/sha256.h"

namespace tb::api {
namespace json = boost::json;
namespace {

// A file that does not change while the server runs.
struct Fixed {
  std::string type;
  std::string body;
  std::string etag;
  std::string policy;  // Content-Security-Policy; may be empty
};

void insert_at(std::string& page, std::string_view mark, std::string_view text) {
  const std::size_t at = page.find(mark);
  TB_ASSERT(at != std::string::npos);
  page.replace(at, mark.size(), text);
}

std::string_view inside(std::string_view page, std::string_view open, std::string_view close) {
  const std::size_t begin = page.find(open) + open.size();
  return page.substr(begin, page.find(close, begin) - begin);
}

std::string etag_of(std::string_view body) { return '"' + sha256_base64(body).substr(0, 22) + '"'; }

// One file with all its parts in it. Only this very script and this very style may act on the page:
// what somebody else's text should smuggle in would have another hash.
Fixed make_page(std::string_view source) {
  std::string page{source};
  insert_at(page, "/*shared.css*/", web::shared_css());
  insert_at(page, "/*shared.js*/", web::shared_js());
  const std::string policy = "default-src 'none'; script-src 'sha256-" +
                             sha256_base64(inside(page, "<script>", "</script>")) +
                             "'; style-src 'sha256-" +
                             sha256_base64(inside(page, "<style>", "</style>")) +
                             "'; connect-src 'self'; img-src data:; base-uri 'none'; "
                             "form-action 'none'; frame-ancestors 'none'";
  std::string etag = etag_of(page);
  return {"text/html; charset=utf-8", std::move(page), std::move(etag), policy};
}

Fixed make_description() {
  json::value description = json::parse(web::openapi());
  description.at("info").as_object()["version"] = TB_VERSION;
  std::string body = json::serialize(description);
  std::string etag = etag_of(body);
  return {"application/json", std::move(body), std::move(etag), {}};
}

// A list of tags, or "*". Weak ones count: RFC 9110, 13.1.2.
bool names(std::string_view list, std::string_view etag) {
  return list == "*" || list.find(etag) != std::string_view::npos;
}

http::Response answer(const Fixed& file, const http::Request& request) {
  http::Response response;
  response.headers = {
      {"ETag", file.etag}, {"Cache-Control", "no-cache"}, {"X-Content-Type-Options", "nosniff"}};
  const auto known = request.headers.find("If-None-Match");
  if (known && names(*known, file.etag)) {
    response.status = 304;
    return response;
  }
  if (!file.policy.empty()) {
    response.headers.push_back({"Content-Security-Policy", file.policy});
    response.headers.push_back({"Referrer-Policy", "no-referrer"});
  }
  response.content_type = file.type;
  response.body = file.body;
  return response;
}

void add_file(Router& router, const char* path, Fixed file) {
  const auto shared = std::make_shared<const Fixed>(std::move(file));
  router.add("GET", path, [shared](Call& call) -> awaitable<http::Response> {
    co_return answer(*shared, call.exchange.request());
  });
}

}  // namespace

void add_docs_routes(Router& router) {
  add_file(router, "/openapi.json", make_description());
  add_file(router, "/docs", make_page(web::docs()));
  add_file(router, "/redoc", make_page(web::redoc()));
}

}  // namespace tb::api

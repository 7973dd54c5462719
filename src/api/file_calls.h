// SPDX-License-Identifier: Apache-2.0
// What the routes below /api/sessions/{id}/files have in common.
#pragma once

#include <boost/json.hpp>
#include <string>

#include "api/service.h"
#include "sandbox/files.h"

namespace tb::api {

// A path of a file request: relative to the workspace, or beginning with /workspace. Empty, . and
// /workspace are the workspace itself. Throws Refusal 400 as workspace_path() does.
std::string file_path(std::string_view name);
// The same, but not the workspace itself.
std::string file_path_below(std::string_view name);

// A request about files while it is answered.
struct FileCall {
  Service& service;
  Call& call;
  std::string path = {};  // what an error is about

  const http::Request& request() const { return call.exchange.request(); }
  // The one that the path names. Throws Error{not_found}.
  std::shared_ptr<session::Session> session() const;
  // Of the query. Throw HttpError 400.
  bool flag(const char* name) const;
  std::uint64_t number(const char* name, std::uint64_t otherwise, std::uint64_t most) const;
  std::string text(const char* name) const;
  std::optional<unsigned> mode() const;
};

using FileHandler = awaitable<http::Response> (*)(FileCall& call);

// Adds a route whose FileErrors become statuses; the second one below /api/sessions/{}/files.
void add_file_route(Router& router, Service& service, const char* method, const char* pattern,
                    FileHandler handler);
void add_file_call(Router& router, Service& service, const char* method, const char* path,
                   FileHandler handler);

// A field that must be there. Throws HttpError 400.
std::string required_text(const boost::json::object& body, const char* name);
// "0644", of a field or of a query.
unsigned read_mode(const std::string& text);

boost::json::object render_file(const sandbox::FileInfo& info, const std::string& path);
http::Response answer_json(int status, const boost::json::object& body);

void add_content_routes(Router& router, Service& service);
void add_archive_routes(Router& router, Service& service);

}  // namespace tb::api

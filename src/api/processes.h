// SPDX-License-Identifier: Apache-2.0
// What all routes of a process begin with.
#pragma once

#include <boost/json.hpp>
#include <memory>
#include <string>

#include "api/service.h"

namespace tb::api {

// What ran in a session is known with its sandbox: after a restart that may have to be made first.
awaitable<void> recall_processes(Service& service, const Call& call);
// The process that the path names. Throws 404 for an unknown session or process.
std::shared_ptr<sandbox::Process> process_of(const Service& service, const Call& call);

// Of the query; all unless it says otherwise. Throws HttpError 400.
sandbox::Stream read_stream(const Call& call);
// Of a body. Throw HttpError 400.
int read_signal(const boost::json::object& body);
struct TerminalSize {
  unsigned rows;
  unsigned columns;
};
TerminalSize read_size(const boost::json::object& body);

// A whole number of a path or a query. Throws HttpError 400.
std::uint64_t read_number(const std::string& text, const char* name);

void add_output_routes(Router& router, Service& service);
void add_attach_routes(Router& router, Service& service);

}  // namespace tb::api

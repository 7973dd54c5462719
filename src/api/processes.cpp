// SPDX-License-Identifier: Apache-2.0
// Processes of a session and what they printed, by byte offset.
#include <boost/json.hpp>
#include <charconv>

#include "api/errors.h"
#include "api/render.h"
#include "api/service.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr std::uint64_t kPage = 1 << 20;

std::uint64_t read_number(const std::string& text, const char* name) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw http::HttpError{400, std::string{"\""} + name + "\" must be a whole number"};
  }
  return value;
}

std::uint64_t query_number(const Call& call, const char* name, std::uint64_t otherwise) {
  const std::string* text = call.exchange.request().find_query(name);
  return text ? read_number(*text, name) : otherwise;
}

std::shared_ptr<sandbox::Process> get_process(const Service& service, const Call& call) {
  const auto session = service.sessions.get(call.captured[0]);
  const std::uint64_t number = read_number(call.captured[1], "process id");
  auto process = session->sandbox && number <= UINT32_MAX
                     ? session->sandbox->find_process(static_cast<std::uint32_t>(number))
                     : nullptr;
  if (!process) throw http::HttpError{404, "no such process in this session"};
  return process;
}

awaitable<http::Response> list(Service& service, Call& call) {
  const auto session = service.sessions.get(call.captured[0]);
  json::array processes;
  if (session->sandbox) {
    for (const auto& process : session->sandbox->processes()) {
      processes.push_back(render_process(*process));
    }
  }
  json::object answer{{"session_id", session->id}, {"processes", std::move(processes)}};
  co_return http::json_response(200, json::serialize(answer));
}

awaitable<http::Response> show(Service& service, Call& call) {
  co_return http::json_response(200, json::serialize(render_process(*get_process(service, call))));
}

sandbox::Stream read_stream(const Call& call) {
  const std::string* name = call.exchange.request().find_query("stream");
  if (!name || *name == "all") return sandbox::Stream::all;
  if (*name == "stdout") return sandbox::Stream::out;
  if (*name == "stderr") return sandbox::Stream::err;
  throw http::HttpError{400, "\"stream\" must be stdout, stderr or all"};
}

// The bytes as they are; headers say where they begin and whether more can come.
awaitable<http::Response> output(Service& service, Call& call) {
  const auto process = get_process(service, call);
  const sandbox::Stream stream = read_stream(call);
  const std::uint64_t offset = query_number(call, "offset", 0);
  const std::uint64_t limit = std::min(query_number(call, "limit", kPage), kPage);
  http::Response response;
  response.content_type = "application/octet-stream";
  response.body = process->read_output(stream, offset, limit);
  response.headers.push_back({"X-Output-Offset", std::to_string(offset)});
  response.headers.push_back({"X-Output-Total", std::to_string(process->output_size(stream))});
  response.headers.push_back({"X-Process-State", process->exit() ? "exited" : "running"});
  co_return response;
}

}  // namespace

void add_process_routes(Router& router, Service& service) {
  router.add("GET", "/api/sessions/{}/processes",
             [&service](Call& call) { return list(service, call); });
  router.add("GET", "/api/sessions/{}/processes/{}",
             [&service](Call& call) { return show(service, call); });
  router.add("GET", "/api/sessions/{}/processes/{}/output",
             [&service](Call& call) { return output(service, call); });
}

}  // namespace tb::api

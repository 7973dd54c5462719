// SPDX-License-Identifier: Apache-2.0
// Tools of the registry, run in a session.
#include "registry/tool_command.h"

#include <algorithm>
#include <boost/json.hpp>

#include "api/errors.h"
#include "api/fields.h"
#include "api/files.h"
#include "api/render.h"
#include "api/service.h"
#include "base/utf8.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr std::size_t kMaxResult = 1 << 20;  // of stdout that is read as JSON
constexpr std::size_t kMaxDepth = 32;

json::array words(const std::vector<std::string>& names) {
  json::array list;
  for (const std::string& name : names) list.emplace_back(name);
  return list;
}

// Those of its agent; of a session without one all.
std::vector<std::string> tools_of(const session::Session& session,
                                  const registry::Registry& registry) {
  const registry::Agent* agent = registry.find_agent(session.spec.agent);
  return agent ? agent->tools : *registry.names("tools");
}

registry::Tool find_tool(const session::Session& session, const registry::Registry& registry,
                         const std::string& name) {
  const std::vector<std::string> known = tools_of(session, registry);
  const registry::Tool* tool = registry.find_tool(name);
  const bool allowed = std::find(known.begin(), known.end(), name) != known.end();
  if (!tool || !allowed) {
    const std::string shown = to_utf8(name.substr(0, 200));
    throw Refusal{400,
                  "Unknown tool: " + shown + "; this session has " + registry::join_names(known),
                  {{"known", words(known)}}};
  }
  if (tool->needs_network && !session.surroundings.network) {
    throw Refusal{400, "The tool " + name + " needs the network, and this session has none"};
  }
  return *tool;
}

// The parameters with their defaults.
json::object check_parameters(const registry::Tool& tool, const json::object& body) {
  json::value given = json::object{};
  if (const json::value* value = body.if_contains("parameters"); value && !value->is_null()) {
    given = *value;
  }
  if (!given.is_object()) throw http::HttpError{400, "\"parameters\" must be an object"};
  const std::vector<registry::Schema::Problem> problems = tool.parameters.check(given);
  if (problems.empty()) return std::move(given.get_object());
  json::array list;
  std::string text;
  for (const registry::Schema::Problem& problem : problems) {
    list.push_back({{"parameter", problem.pointer}, {"problem", problem.what}});
    if (!text.empty()) text += "; ";
    text += (problem.pointer.empty() ? "" : problem.pointer.substr(1) + " ") + problem.what;
  }
  throw Refusal{400, "Wrong parameters for " + tool.name + ": " + text, {{"problems", list}}};
}

// What the tool printed, where that is JSON.
json::value result_of(const std::string& text) {
  if (text.size() > kMaxResult || text.find_first_not_of(" \t\r\n") == text.npos) return nullptr;
  json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::system::error_code error;
  json::value value = json::parse(text, error, {}, options);
  return error ? json::value(nullptr) : value;
}

std::string error_of(const sandbox::Exit& exit, const std::string& err) {
  if (exit.cause == sandbox::Cause::timeout) return "the tool took too long";
  if (exit.cause != sandbox::Cause::exited) {
    return "the tool was ended: " + std::string{sandbox::name_of(exit.cause)};
  }
  const std::size_t end = err.find_last_not_of(" \r\n\t");
  if (end == err.npos) return "the tool ended with exit code " + std::to_string(exit.code);
  const std::size_t start = err.rfind('\n', end);
  return err.substr(start == err.npos ? 0 : start + 1, end - (start == err.npos ? -1 : start));
}

awaitable<http::Response> run(Service& service, Call& call) {
  const json::object body = co_await read_object(call.exchange);
  const auto session = session_of(service, call, call.captured[0]);
  const registry::Tool tool = find_tool(*session, service.sessions.registry(), call.captured[1]);
  const json::object parameters = check_parameters(tool, body);
  sandbox::Command command = registry::make_command(tool, parameters);
  if (const auto timeout = find_timeout(body)) command.timeout = timeout;
  if (!command.timeout) command.timeout = command_timeout(service, session.get());
  const session::Who who = session->who(call.request_id);
  const auto process = co_await service.sessions.execute(session, std::move(command), who);
  const sandbox::Exit& exit = *process->exit();
  sandbox::Captured out = process->captured(sandbox::Stream::out);
  sandbox::Captured err = process->captured(sandbox::Stream::err);
  const std::string printed = to_utf8(std::move(out.text));
  const std::string complained = to_utf8(std::move(err.text));
  const bool success = exit.cause == sandbox::Cause::exited && exit.code == 0;
  json::object answer{
      {"success", success},           {"tool", tool.name},
      {"session_id", session->id},    {"process_id", process->id()},
      {"result", result_of(printed)}, {"stdout", printed},
      {"stderr", complained},         {"truncated", out.truncated || err.truncated}};
  if (!success) answer["error"] = error_of(exit, complained);
  render_exit(answer, exit);
  co_return http::json_response(200, json::serialize(answer));
}

awaitable<http::Response> list(Service& service, Call& call) {
  const auto session = session_of(service, call, call.captured[0]);
  const registry::Registry& registry = service.sessions.registry();
  json::array rows;
  for (const std::string& name : tools_of(*session, registry)) {
    const registry::Tool* tool = registry.find_tool(name);
    if (!tool) continue;
    rows.push_back({{"name", tool->name},
                    {"description", tool->description},
                    {"parameters", tool->parameters.document()}});
  }
  json::object answer{{"session_id", session->id}, {"tools", std::move(rows)}};
  co_return http::json_response(200, json::serialize(answer));
}

}  // namespace

void add_tool_routes(Router& router, Service& service) {
  router.add("GET", "/api/sessions/{}/tools",
             [&service](Call& call) { return list(service, call); });
  router.add("POST", "/api/sessions/{}/tools/{}",
             [&service](Call& call) { return run(service, call); });
}

}  // namespace tb::api

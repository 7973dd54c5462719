// SPDX-License-Identifier: Apache-2.0
#include "code/render.h"

#include "base/iso8601.h"
#include "base/utf8.h"

namespace tb::code {
namespace json = boost::json;
namespace {

json::value render_error(const Outcome& outcome) {
  if (!outcome.error) return nullptr;
  return json::object{{"name", to_utf8(outcome.error->name)},
                      {"value", to_utf8(outcome.error->value)},
                      {"traceback", to_utf8(outcome.error->traceback)}};
}

}  // namespace

json::object render_outcome(const Context& context, const Outcome& outcome) {
  json::array files;
  for (const std::string& path : outcome.files) files.emplace_back(to_utf8(path));
  json::object body{{"context_id", context.spec.id},
                    {"language", name_of(context.spec.language)},
                    {"execution_count", outcome.count},
                    {"error", render_error(outcome)},
                    {"timed_out", outcome.timed_out},
                    {"interrupted", outcome.interrupted},
                    {"restarted", outcome.restarted},
                    {"state_lost", outcome.state_lost},
                    {"results_truncated", outcome.results_cut},
                    {"files", std::move(files)},
                    {"execution_time_ms", outcome.took.count()}};
  if (outcome.exit_code) body["exit_code"] = *outcome.exit_code;
  return body;
}

json::object render_context(const Context& context) {
  const char* state = context.running() ? "running" : "waiting";
  return {{"context_id", context.spec.id},
          {"id", context.spec.id},
          {"language", name_of(context.spec.language)},
          {"cwd", to_utf8(context.spec.cwd)},
          {"state", state},
          {"execution_count", context.count},
          {"waiting_calls", context.waiting()},
          {"created_at", iso8601(context.created)}};
}

json::object render_event(Event& event) {
  json::object message;
  switch (event.kind) {
    case Event::Kind::silence: return {};
    case Event::Kind::begun:
      message["execution_count"] = event.count;
      message["type"] = "number_of_executions";
      return message;
    case Event::Kind::result:
      message = std::move(event.result);
      message["type"] = "result";
      return message;
    default: break;
  }
  message["text"] = to_utf8(std::move(event.text));
  message["timestamp"] = iso8601(std::chrono::system_clock::now());
  message["type"] = event.kind == Event::Kind::out ? "stdout" : "stderr";
  return message;
}

awaitable<void> Collector::take(Event& event) {
  if (event.kind == Event::Kind::out) out_ += event.text;
  if (event.kind == Event::Kind::err) err_ += event.text;
  if (event.kind == Event::Kind::result) add(std::move(event.result));
  co_return;
}

json::object Collector::render(const std::string& session, json::object body) {
  body["session_id"] = session;
  body["stdout"] = to_utf8(std::move(out_));
  body["stderr"] = to_utf8(std::move(err_));
  body["text"] = text_;
  body["results"] = std::move(results_);
  body["artifacts"] = json::array{};
  return body;
}

void Collector::add(json::object result) {
  const json::value* main = result.if_contains("is_main_result");
  const json::value* text = result.if_contains("text");
  if (main && main->is_bool() && main->get_bool() && text) text_ = *text;
  results_.push_back(std::move(result));
}

}  // namespace tb::code

// SPDX-License-Identifier: Apache-2.0
#include "api/render.h"

#include "api/fields.h"
#include "base/iso8601.h"
#include "base/utf8.h"

namespace tb::api {
namespace json = boost::json;

void render_exit(json::object& to, const sandbox::Exit& exit) {
  to["exit_code"] = exit.code;
  to["cause"] = sandbox::name_of(exit.cause);
  to["timed_out"] = exit.cause == sandbox::Cause::timeout;
  to["signal"] = exit.signal == 0 ? json::value(nullptr) : json::value(exit.signal);
  to["limits_hit"] = json::value_from(exit.limits_hit);
  to["execution_time_ms"] =
      std::chrono::duration_cast<std::chrono::milliseconds>(exit.wall).count();
  to["cpu_time_ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(exit.cpu).count();
  to["peak_memory_bytes"] = exit.peak_memory.count;
}

namespace {

void append_line(std::string& to, const std::string& line) {
  if (!to.empty() && to.back() != '\n') to += '\n';
  to += line;
}

std::string timeout_note(Milliseconds timeout) {
  const std::int64_t ms = timeout.count();
  std::string seconds = std::to_string(ms / 1000);
  if (ms % 1000 != 0) seconds += "." + std::to_string(ms % 1000 + 1000).substr(1);
  return "timed out after " + seconds + " s\n";
}

}  // namespace

json::object render_execution(const std::string& session, const sandbox::Process& process,
                              Milliseconds timeout) {
  const sandbox::Exit& exit = *process.exit();
  sandbox::Captured out = process.captured(sandbox::Stream::out);
  sandbox::Captured err = process.captured(sandbox::Stream::err);
  sandbox::Captured all = process.captured(sandbox::Stream::all);
  if (exit.cause == sandbox::Cause::timeout) {
    append_line(err.text, timeout_note(timeout));
    append_line(all.text, timeout_note(timeout));
  }
  json::object answer{{"session_id", session},
                      {"process_id", process.id()},
                      {"stdout", to_utf8(std::move(out.text))},
                      {"stderr", to_utf8(std::move(err.text))},
                      {"output", to_utf8(std::move(all.text))},
                      {"truncated", out.truncated || err.truncated},
                      {"stdout_bytes", out.total},
                      {"stderr_bytes", err.total}};
  render_exit(answer, exit);
  return answer;
}

json::object render_process(const sandbox::Process& process) {
  const sandbox::ProcessInfo& info = process.info();
  json::object object{
      {"process_id", process.id()},
      {"state", process.exit() ? "exited" : "running"},
      {"command", to_utf8(info.command)},
      {"cwd", to_utf8(info.cwd)},
      {"tag", to_utf8(info.tag)},
      {"pty", info.terminal},
      {"shell_id", info.shell == 0 ? json::value(nullptr) : json::value(info.shell)},
      {"pid", info.pid == 0 ? json::value(nullptr) : json::value(info.pid)},
      {"started_at", iso8601(info.started)},
      {"stdin_open", process.input_open()},
      {"stdout_bytes", process.output_size(sandbox::Stream::out)},
      {"stderr_bytes", process.output_size(sandbox::Stream::err)},
  };
  if (process.exit()) render_exit(object, *process.exit());
  return object;
}

}  // namespace tb::api

// SPDX-License-Identifier: Apache-2.0
#include "api/render.h"

#include "api/fields.h"
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

json::object render_process(const sandbox::Process& process) {
  const sandbox::ProcessInfo& info = process.info();
  json::object object{
      {"process_id", process.id()},
      {"state", process.exit() ? "exited" : "running"},
      {"command", to_utf8(info.command)},
      {"cwd", to_utf8(info.cwd)},
      {"tag", to_utf8(info.tag)},
      {"pty", info.terminal},
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

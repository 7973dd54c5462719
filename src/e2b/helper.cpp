// SPDX-License-Identifier: Apache-2.0
#include "e2b/helper.h"

#include "base/sha256.h"

namespace tb::e2b {
namespace {

constexpr std::size_t kMaxErrors = 4 << 10;

awaitable<Ran> run(Envd& envd, const Helper& helper) {
  json::object request = to_request(helper);
  const auto events = co_await envd.open("process.Process/Start", std::move(request), helper.user);
  Ran ran;
  bool ended = false;
  for (;;) {
    const auto message = co_await events->next();
    if (!message) break;
    const json::object* event = object_of(*message, "event");
    if (!event) continue;
    if (const json::object* data = object_of(*event, "data")) {
      ran.out += bytes_of(*data, "stdout");
      if (ran.errors.size() < kMaxErrors) ran.errors += bytes_of(*data, "stderr");
      if (ran.out.size() > helper.most.count) {
        throw Error{Code::exhausted, "what the sandbox tells is too large"};
      }
    }
    if (const json::object* end = object_of(*event, "end")) {
      ran.code = flag_of(*end, "exited") ? static_cast<int>(number_of(*end, "exitCode")) : 255;
      ended = true;
    }
  }
  if (!ended) throw Error{Code::unavailable, "the sandbox did not say how a helper ended"};
  co_return ran;
}

}  // namespace

std::string bytes_of(const json::object& data, std::string_view stream) {
  return from_base64(text_of(data, stream)).value_or("");
}

json::object to_request(const Helper& helper) {
  json::array arguments{"-c", helper.script, "threadbox"};
  for (const std::string& parameter : helper.parameters) arguments.emplace_back(parameter);
  json::object process{{"cmd", "/bin/bash"}, {"args", std::move(arguments)}, {"cwd", "/"}};
  process["envs"] = json::object{{"LC_ALL", "C"}, {"BASH_ENV", ""}};
  return {{"process", std::move(process)}, {"stdin", false}};
}

awaitable<Ran> run_helper(Envd& envd, Helper helper) {
  auto task = run(envd, helper);
  auto ran = co_await within(helper.limit, std::move(task));
  if (!ran) throw Error{Code::unavailable, "the sandbox does not answer"};
  co_return std::move(*ran);
}

}  // namespace tb::e2b

// SPDX-License-Identifier: Apache-2.0
#include "make_job.h"

namespace tb::python {
namespace {

// code, language or None, context or None, env, timeout
embed::CodeCall code_call(Arguments& in) {
  embed::CodeCall call;
  call.cell.text = in.text();
  call.language = in.optional_text();
  call.context = in.optional_text();
  call.cell.env = in.pairs();
  call.cell.timeout = in.timeout().value_or(call.cell.timeout);
  return call;
}

Job run_code(Arguments& in) {
  const std::string id = in.text();
  const embed::CodeCall call = code_call(in);
  auto stopper = std::make_shared<embed::Stopper>();
  Job result =
      job([=](CoreRef core) { return embed::run_code(std::move(core), id, call, stopper); });
  result.stopper = stopper;
  return result;
}

Job begin_code(Arguments& in) {
  const std::string id = in.text();
  const embed::CodeCall call = code_call(in);
  return job([=](CoreRef core) { return embed::begin_code(std::move(core), id, call); });
}

Job next_code(Arguments& in) {
  return job(
      [handle = in.count()](CoreRef core) { return embed::next_code(std::move(core), handle); });
}

Job end_code(Arguments& in) {
  return job(
      [handle = in.count()](CoreRef core) { return embed::end_code(std::move(core), handle); });
}

// session, language, cwd or None, env
Job create_context(Arguments& in) {
  const std::string id = in.text();
  code::ContextSpec spec;
  const std::string language = in.text();
  if (auto cwd = in.optional_text()) spec.cwd = std::move(*cwd);
  spec.env = in.pairs();
  return job([=](CoreRef core) -> awaitable<std::string> {
    code::ContextSpec wanted = spec;
    wanted.language = code::language_named(language);
    co_return co_await embed::create_context(std::move(core), id, std::move(wanted));
  });
}

Job contexts(Arguments& in) {
  return job([id = in.text()](CoreRef core) { return embed::contexts(std::move(core), id); });
}

// session, context
template <auto kOperation>
Job of_context(Arguments& in) {
  const std::string id = in.text();
  const std::string name = in.text();
  return job([=](CoreRef core) { return kOperation(std::move(core), id, name); });
}

constexpr JobRow kJobs[] = {{"run_code", run_code},
                            {"begin_code", begin_code},
                            {"next_code", next_code},
                            {"end_code", end_code},
                            {"create_context", create_context},
                            {"contexts", contexts},
                            {"context", of_context<embed::context>},
                            {"restart_context", of_context<embed::restart_context>},
                            {"interrupt_context", of_context<embed::interrupt_context>},
                            {"remove_context", of_context<embed::remove_context>}};

}  // namespace

std::span<const JobRow> code_jobs() { return kJobs; }

}  // namespace tb::python

// SPDX-License-Identifier: Apache-2.0
#include "make_job.h"

namespace tb::python {
namespace {

// session, cwd or None, env, tag
Job open_shell(Arguments& in) {
  const std::string id = in.text();
  sandbox::ShellSpec spec;
  if (auto cwd = in.optional_text()) spec.cwd = std::move(*cwd);
  spec.env = in.pairs();
  spec.tag = in.text();
  auto stopper = std::make_shared<embed::Stopper>();
  Job result =
      job([=](CoreRef core) { return embed::open_shell(std::move(core), id, spec, stopper); });
  result.stopper = stopper;
  return result;
}

Job shells(Arguments& in) {
  return job([id = in.text()](CoreRef core) { return embed::shells(std::move(core), id); });
}

Job shell(Arguments& in) {
  const std::string id = in.text();
  const std::uint32_t which = process_number(in);
  return job([=](CoreRef core) { return embed::shell(std::move(core), id, which); });
}

// session, shell, command, timeout
template <auto kOperation>
Job in_shell(Arguments& in) {
  const std::string id = in.text();
  const std::uint32_t which = process_number(in);
  sandbox::Command command;
  command.script = in.text();
  command.timeout = in.timeout();
  auto stopper = std::make_shared<embed::Stopper>();
  stopper->interrupts = true;
  Job result =
      job([=](CoreRef core) { return kOperation(std::move(core), id, which, command, stopper); });
  result.stopper = stopper;
  return result;
}

Job interrupt_shell(Arguments& in) {
  const std::string id = in.text();
  const std::uint32_t which = process_number(in);
  return job([=](CoreRef core) { return embed::interrupt_shell(std::move(core), id, which); });
}

Job close_shell(Arguments& in) {
  const std::string id = in.text();
  const std::uint32_t which = process_number(in);
  return job([=](CoreRef core) { return embed::close_shell(std::move(core), id, which); });
}

constexpr JobRow kJobs[] = {{"open_shell", open_shell},
                            {"shells", shells},
                            {"shell", shell},
                            {"run_in_shell", in_shell<embed::run_in_shell>},
                            {"start_in_shell", in_shell<embed::start_in_shell>},
                            {"interrupt_shell", interrupt_shell},
                            {"close_shell", close_shell}};

}  // namespace

std::span<const JobRow> shell_jobs() { return kJobs; }

}  // namespace tb::python

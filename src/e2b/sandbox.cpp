// SPDX-License-Identifier: Apache-2.0
#include "e2b/sandbox.h"

#include <algorithm>
#include <filesystem>

#include "base/id.h"
#include "base/log.h"
#include "box/command.h"
#include "e2b/helper.h"
#include "os/fd.h"

namespace tb::e2b {
namespace {

constexpr std::size_t kKeptProcesses = 64;       // finished ones whose output can still be read
constexpr std::size_t kMaxArgument = 100 << 10;  // the kernel takes a little more
constexpr auto kStarting = 30s;

// Who commands run as must own the workspace. Prints that user's name when it is not so.
constexpr const char* kSetUp = R"(
for tool in find stat tar grep mv mkdir rm realpath; do
  type -P $tool >/dev/null || { echo "the template lacks $tool" >&2; exit 3; }
done
mkdir -p /tmp/.threadbox && chmod 700 /tmp/.threadbox || exit 4
mkdir -p /workspace 2>/dev/null && [ -w /workspace ] || id -u
)";
constexpr const char* kOwn = R"(mkdir -p /workspace && chown "$1" /workspace)";

// Says whether the program is there, in two bytes before its own output. Not by bash, which takes
// variables such as PS1 out of the environment.
constexpr const char* kRunProgram = R"(
f=$1
case $1 in */*) ;; *)
  f=$(IFS=:; for d in $PATH; do [ -f "$d/$1" ] && [ -x "$d/$1" ] && echo "$d/$1" && break; done)
esac
if [ -f "$f" ] && [ -x "$f" ]; then printf ok; exec "$@"; fi
printf no; exit 127
)";
// A text that is too long for an argument.
constexpr const char* kRunFile = R"(
tb_file=$1; shift
tb_text=$(<"$tb_file"); rm -f -- "$tb_file"; unset tb_file
eval "$tb_text"
)";

}  // namespace

E2bSandbox::E2bSandbox(asio::any_io_executor executor, std::string id, std::string label,
                       Settings settings, std::shared_ptr<Envd> envd, Spools& spools)
    : executor_(executor),
      id_(std::move(id)),
      label_(std::move(label)),
      settings_(std::move(settings)),
      envd_(std::move(envd)),
      files_(envd_, spools),
      // What fails in the background was told to who asked, or the sandbox is ending.
      tasks_(executor, [](const std::string& name, std::exception_ptr failure) {
        try {
          std::rethrow_exception(failure);
        } catch (const Error& error) {
          log(LogLevel::debug, "e2b_task_failed", {{"task", name}, {"error", error.what()}});
        } catch (const std::exception&) {
          return;  // cancelled
        }
      }) {}

awaitable<void> E2bSandbox::set_up() {
  Helper helper;
  helper.script = kSetUp;
  const Ran ran = co_await run_helper(*envd_, std::move(helper));
  if (ran.code != 0) {
    throw Error{Code::invalid, "the sandbox can't be used: " + ran.errors.substr(0, 200) +
                                   "; choose another template"};
  }
  if (ran.out.empty()) co_return;
  Helper own;
  own.script = kOwn;
  own.parameters = {ran.out.substr(0, ran.out.find('\n'))};
  own.user = "root";
  const Ran owned = co_await run_helper(*envd_, std::move(own));
  if (owned.code == 0) co_return;
  throw Error{Code::invalid, "the template's user can't have /workspace: " +
                                 owned.errors.substr(0, 200) + "; make it in the template"};
}

void E2bSandbox::close() {
  if (!alive_) return;
  alive_ = false;
  const auto all = processes_;
  for (const auto& [id, process] : all) process->lost();
}

awaitable<void> E2bSandbox::shut() {
  const auto self = shared_from_this();
  alive_ = false;
  co_await tasks_.close();
}

void E2bSandbox::remove_files() const { os::remove_tree(settings_.dir); }

std::shared_ptr<E2bProcess> E2bSandbox::make_process(std::uint32_t id, std::string run,
                                                     sandbox::ProcessInfo info) {
  std::filesystem::create_directories(settings_.dir);
  E2bProcess::Parts parts{executor_, envd_, {}, path_of(id), settings_.output};
  parts.spawn = [weak = weak_from_this()](std::string name, std::function<awaitable<void>()> task) {
    const auto self = weak.lock();
    if (self && self->alive_) self->tasks_.spawn(std::move(name), std::move(task));
  };
  auto process =
      std::make_shared<E2bProcess>(std::move(parts), id, std::move(run), std::move(info));
  process->on_change([weak = weak_from_this(), raw = process.get()] {
    const auto self = weak.lock();
    if (self && self->processes_.contains(raw->id())) self->save(*raw);
  });
  return process;
}

awaitable<std::string> E2bSandbox::put_script(std::string script, std::string run) {
  const std::string path = std::string{kOurs} + "/script-" + run;
  const std::uint64_t size = script.size();
  auto next = [text = std::move(script)]() mutable -> awaitable<std::string> {
    co_return std::exchange(text, {});
  };
  co_await envd_->write_file(path, size, std::move(next));
  co_return path;
}

awaitable<json::object> E2bSandbox::to_start(sandbox::Command& command, const std::string& run) {
  json::array arguments{"-c"};
  const bool program = command.script.empty();
  if (program) {
    arguments.emplace_back(kRunProgram);
    arguments.emplace_back("bash");
    for (const std::string& word : command.argv) arguments.emplace_back(word);
  } else if (command.script.size() <= kMaxArgument) {
    arguments.emplace_back(command.script);
  } else {
    std::string path = co_await put_script(std::move(command.script), run);
    arguments.emplace_back(kRunFile);
    arguments.emplace_back("bash");
    arguments.emplace_back(path);
  }
  json::object environment{{"TERM", command.terminal ? "xterm-256color" : "dumb"}};
  for (const auto& [name, value] : command.env) environment[name] = value;
  environment[kRunVariable] = run;
  json::object process{{"cmd", program ? "/bin/sh" : "/bin/bash"},
                       {"args", std::move(arguments)},
                       {"envs", std::move(environment)},
                       {"cwd", command.cwd}};
  json::object request{{"process", std::move(process)}, {"tag", run}};
  request["stdin"] = command.terminal || command.keep_stdin_open || !command.input.empty();
  if (command.terminal) {
    json::object size{{"rows", command.terminal->rows}, {"cols", command.terminal->columns}};
    request["pty"] = json::object{{"size", std::move(size)}};
  }
  co_return request;
}

awaitable<std::shared_ptr<sandbox::Process>> E2bSandbox::start(sandbox::Command command) {
  const auto self = shared_from_this();
  box::validate(command);
  if (command.shell != 0) throw Error{Code::not_found, "E2B's sandboxes have no shells"};
  if (!alive_) throw ended();
  for (const auto& [id, process] : processes_) {
    if (!command.key.empty() && process->info().key == command.key) co_return process;
  }
  const std::uint32_t id = next_++;
  const std::string run = make_uuid();
  auto process = make_process(id, run, box::describe(command));
  processes_[id] = process;
  const bool asks = command.script.empty();
  std::exception_ptr failure;
  try {
    json::object request = co_await to_start(command, run);
    auto events = co_await envd_->open("process.Process/Start", std::move(request));
    auto task = [&]() -> awaitable<bool> {
      co_await process->begin(std::move(events), asks);
      co_return true;
    };
    auto begun = task();
    const std::optional<bool> answered = co_await within(kStarting, std::move(begun));
    if (!answered) throw Error{Code::unavailable, "the sandbox does not say what became of it"};
  } catch (const CallError& error) {
    const bool ours = error.code() == Code::invalid || error.code() == Code::not_found;
    failure = std::make_exception_ptr(Error{ours ? Code::invalid : error.code(),
                                            std::string{"can't be executed: "} + error.what()});
  } catch (...) {
    failure = std::current_exception();
    process->kill();  // what became of it is not known: nothing may
  }
  if (failure) {
    processes_.erase(id);
    box::Output::remove_files(path_of(id));
    std::filesystem::remove(path_of(id) + ".process");
    std::rethrow_exception(failure);
  }
  process->set_timeout(command.timeout);
  if (command.terminal || command.keep_stdin_open || !command.input.empty()) {
    process->open_input(std::move(command.input), command.terminal || command.keep_stdin_open);
  }
  save(*process);
  follow(process);
  forget_old();
  co_return process;
}

void E2bSandbox::follow(const std::shared_ptr<E2bProcess>& process) {
  if (process->exit()) return;
  if (!alive_) return process->lost();
  tasks_.spawn("follow " + std::to_string(process->id()),
               [self = shared_from_this(), process] { return process->follow(); });
}

void E2bSandbox::forget_old() {
  std::size_t finished = 0;
  for (const auto& [id, process] : processes_) finished += process->exit() ? 1 : 0;
  for (auto at = processes_.begin(); at != processes_.end() && finished > kKeptProcesses;) {
    if (!at->second->exit()) {
      ++at;
      continue;
    }
    box::Output::remove_files(path_of(at->first));
    std::filesystem::remove(path_of(at->first) + ".process");
    at = processes_.erase(at);
    --finished;
  }
}

std::shared_ptr<sandbox::Process> E2bSandbox::find_process(std::uint32_t id) const {
  const auto found = processes_.find(id);
  return found == processes_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<sandbox::Process>> E2bSandbox::processes() const {
  std::vector<std::shared_ptr<sandbox::Process>> all;
  for (const auto& [id, process] : processes_) all.push_back(process);
  return all;
}

void E2bSandbox::notified(std::uint32_t id) {
  const auto found = processes_.find(id);
  if (found == processes_.end()) return;
  found->second->forget_notify();
  save(*found->second);
}

awaitable<std::shared_ptr<sandbox::Shell>> E2bSandbox::open_shell(sandbox::ShellSpec) {
  throw Error{Code::invalid,
              "sandboxes of E2B have no shells that live on: run bash with a terminal instead, or "
              "choose another provider"};
  co_return nullptr;
}

awaitable<sandbox::Load> E2bSandbox::load() { co_return sandbox::Load{}; }

}  // namespace tb::e2b

// SPDX-License-Identifier: Apache-2.0
#include "e2b/provider.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "os/fd.h"

namespace tb::e2b {
namespace {

using Clock = std::chrono::steady_clock;

// A server keeps the idle times; E2B's own clock ends what no server looks after any more.
constexpr std::chrono::seconds kMargin{120};
constexpr std::chrono::seconds kLongest{3600};  // what every plan of E2B allows
constexpr auto kTellAgain = 30s;                // E2B need not hear of every use
constexpr auto kLookAround = 15s;

// Templates that E2B had once, and that clients still name: a team that has made none of its own
// by that name means its usual one.
constexpr const char* kEarlier[] = {"Python3", "Node", "Bash"};

std::chrono::seconds lifetime_of(Milliseconds idle) {
  if (idle.count() == 0) return kLongest;
  const auto whole = std::chrono::ceil<std::chrono::seconds>(idle) + kMargin;
  return std::min(whole, kLongest);
}

net::Client::Settings client_settings(const E2bSettings& settings) {
  net::Client::Settings made;
  made.authorities = settings.authorities;
  made.authorities_setting = "E2B_CA_FILE";
  return made;
}

}  // namespace

E2bProvider::E2bProvider(asio::any_io_executor executor, E2bSettings settings)
    : executor_(executor),
      settings_(std::move(settings)),
      output_dir_(settings_.state_dir + "/e2b/output"),
      client_(executor, client_settings(settings_)),
      api_(executor, client_, settings_.api),
      records_(settings_.state_dir + "/e2b"),
      spools_(settings_.state_dir + "/e2b", settings_.spooled),
      tasks_(executor, [](const std::string& name, std::exception_ptr failure) {
        try {
          std::rethrow_exception(failure);
        } catch (const Error& error) {
          log(LogLevel::warning, "e2b_task_failed", {{"task", name}, {"error", error.what()}});
        } catch (const std::exception&) {
          return;  // cancelled
        }
      }) {
  std::filesystem::create_directories(output_dir_);
}

void E2bProvider::open() {
  tasks_.spawn("keep sandboxes alive", [this] { return keep_all_alive(); });
}

awaitable<void> E2bProvider::close() {
  co_await tasks_.close();
  std::vector<std::shared_ptr<E2bSandbox>> all{ending_.begin(), ending_.end()};
  for (auto& [id, known] : known_) {
    if (known.timer) known.timer->cancel();
    if (known.sandbox) all.push_back(known.sandbox);
  }
  for (const auto& sandbox : all) co_await sandbox->shut();
}

awaitable<void> E2bProvider::keep_all_alive() {
  for (;;) {
    asio::steady_timer timer{executor_, kLookAround};
    co_await timer.async_wait(asio::use_awaitable);
    const auto now = Clock::now();
    for (const auto& [id, known] : known_) {
      // Idle or not: it has its time from us, and the margin is for when we are not there.
      const auto due = std::max<Clock::duration>(kTellAgain, lifetime_of(known.idle) - kMargin);
      if (known.sandbox && now - known.told > std::min<Clock::duration>(due, kMargin / 2)) tell(id);
    }
  }
}

// Does not wait for the answer.
void E2bProvider::tell(const std::string& id) {
  Known& known = known_[id];
  known.told = Clock::now();
  const auto lifetime = lifetime_of(known.idle);
  tasks_.spawn("keep alive", [this, id, machine = known.machine, lifetime]() -> awaitable<void> {
    const bool there = co_await api_.keep_alive(machine, lifetime);
    if (!there) vanished(id);
  });
}

awaitable<std::shared_ptr<E2bSandbox>> E2bProvider::connect(std::string id,
                                                            const box::Record& record,
                                                            const Machine& machine, bool is_new) {
  auto envd = std::make_shared<Envd>(client_, api_.url_of(machine), machine.id, machine.token);
  envd->on_gone([this, id] { asio::post(executor_, [this, id] { vanished(id); }); });
  E2bSandbox::Settings settings{output_dir_ + "/" + id, settings_.output};
  auto sandbox =
      std::make_shared<E2bSandbox>(executor_, id, record.label, std::move(settings), envd, spools_);
  std::exception_ptr failure;
  try {
    if (is_new) co_await sandbox->set_up();
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    co_await sandbox->shut();
    std::rethrow_exception(failure);
  }
  if (!is_new) sandbox->adopt_processes();
  Known& known = known_[id];
  known.sandbox = sandbox;
  known.machine = machine.id;
  known.told = Clock::now();
  co_return sandbox;
}

// Throws Gone when it is not there any more.
awaitable<std::shared_ptr<E2bSandbox>> E2bProvider::reach(std::string id, box::Record record) {
  const std::optional<Machine> machine =
      co_await api_.connect(record.machine, lifetime_of(record.idle));
  if (!machine) {
    vanished(id);
    throw Gone{};
  }
  co_return co_await connect(std::move(id), record, *machine, false);
}

awaitable<Machine> E2bProvider::make(std::string from, const sandbox::SandboxSpec& spec) {
  const bool earlier =
      std::find(std::begin(kEarlier), std::end(kEarlier), from) != std::end(kEarlier);
  try {
    co_return co_await api_.create(from, records_.tag(), spec.id, lifetime_of(spec.idle),
                                   spec.network);
  } catch (const Error& error) {
    if (error.code() != Code::invalid || !earlier) throw;
  }
  co_return co_await api_.create(settings_.sandbox_template, records_.tag(), spec.id,
                                 lifetime_of(spec.idle), spec.network);
}

// Limits are the template's; what can be executed is what it has.
awaitable<std::shared_ptr<sandbox::Sandbox>> E2bProvider::create(sandbox::SandboxSpec spec) {
  if (const auto before = records_.find(spec.id)) {
    auto sandbox = co_await reach(spec.id, *before);
    watch(spec.id, spec.idle, Milliseconds{0});
    co_return sandbox;
  }
  const std::string from = spec.environment.empty() || spec.environment == "host"
                               ? settings_.sandbox_template
                               : spec.environment;
  const Machine machine = co_await make(from, spec);
  box::Record record;
  record.machine = machine.id;
  record.label = spec.label;
  record.idle = spec.idle;
  std::exception_ptr failure;
  std::shared_ptr<E2bSandbox> sandbox;
  try {
    // If we die before, the next server finds it by its metadata, and ends it.
    records_.put(spec.id, record);
    sandbox = co_await connect(spec.id, record, machine, true);
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    records_.remove(spec.id);
    co_await api_.kill(machine.id);
    std::rethrow_exception(failure);
  }
  watch(spec.id, spec.idle, Milliseconds{0});
  co_return sandbox;
}

awaitable<std::shared_ptr<sandbox::Sandbox>> E2bProvider::adopt(sandbox::Found found) {
  const auto record = records_.find(found.id);
  if (!record) throw Gone{};
  co_return co_await reach(found.id, *record);
}

void E2bProvider::watch(const std::string& id, Milliseconds idle, Milliseconds already) {
  Known& known = known_[id];
  known.idle = idle;
  known.timer.reset();
  if (idle.count() == 0) return;
  known.timer = std::make_unique<asio::steady_timer>(executor_, idle - std::min(already, idle));
  known.timer->async_wait([this, id](boost::system::error_code error) {
    if (!error) expire(id);
  });
}

void E2bProvider::expire(const std::string& id) {
  tasks_.spawn("end " + id, [this, id]() -> awaitable<void> {
    std::string ending = id;
    co_await destroy(std::move(ending));
    if (gone_) gone_(id, false);
  });
}

void E2bProvider::assign(sandbox::Sandbox& sandbox, std::string label, Milliseconds idle) {
  auto& box = static_cast<E2bSandbox&>(sandbox);
  box.set_label(label);
  const auto found = known_.find(box.id());
  if (found == known_.end()) return;  // it is being ended
  box::Record record;
  record.machine = found->second.machine;
  record.label = std::move(label);
  record.idle = idle;
  records_.put(box.id(), record);
  watch(box.id(), idle, Milliseconds{0});
  tell(box.id());
}

void E2bProvider::renew(sandbox::Sandbox& sandbox, Milliseconds idle) {
  const std::string& id = sandbox.id();
  const auto found = known_.find(id);
  if (found == known_.end()) return;  // it is being ended
  watch(id, idle, Milliseconds{0});
  if (Clock::now() - found->second.told < kTellAgain) return;
  records_.touch(id);
  tell(id);
}

// It is kept until nothing goes on for it any more, or close() sees to that.
void E2bProvider::shut(std::shared_ptr<E2bSandbox> sandbox) {
  ending_.insert(sandbox);
  tasks_.spawn("shut", [this, sandbox = std::move(sandbox)]() -> awaitable<void> {
    co_await sandbox->shut();
    ending_.erase(sandbox);
  });
}

void E2bProvider::forget(const std::string& id) {
  const auto found = known_.find(id);
  if (found == known_.end()) return;
  const std::shared_ptr<E2bSandbox> sandbox = std::move(found->second.sandbox);
  known_.erase(found);
  if (!sandbox) return;
  sandbox->close();
  sandbox->remove_files();
  shut(sandbox);
}

// E2B has ended it: its files are gone too.
void E2bProvider::vanished(const std::string& id) {
  const bool ours = records_.find(id).has_value();
  records_.remove(id);
  forget(id);
  if (!ours) return;
  log(LogLevel::warning, "e2b_sandbox_gone", {{"sandbox", id.substr(0, 12)}});
  if (gone_) gone_(id, false);
}

awaitable<void> E2bProvider::destroy(std::string id) {
  const auto record = records_.find(id);
  forget(id);
  if (!record) co_return;
  co_await api_.kill(record->machine);
  records_.remove(id);
}

// Output of sandboxes that ended while no server was there.
void E2bProvider::remove_stray_output(const std::vector<sandbox::Found>& known) const {
  for (const auto& entry : std::filesystem::directory_iterator{output_dir_}) {
    const std::string id = entry.path().filename();
    const auto same = [&](const sandbox::Found& found) { return found.id == id; };
    if (std::none_of(known.begin(), known.end(), same)) os::remove_tree(entry.path());
  }
}

// What has a record and runs. All else that is ours goes.
awaitable<std::vector<sandbox::Found>> E2bProvider::list() {
  const std::vector<Listed> running = co_await api_.list(records_.tag());
  std::map<std::string, box::Record> records = records_.all();
  std::vector<sandbox::Found> found;
  const auto now = std::chrono::system_clock::now();
  for (const Listed& one : running) {
    const auto record = records.find(one.session);
    const bool known = record != records.end() && record->second.machine == one.machine;
    const Milliseconds unused =
        known ? std::chrono::duration_cast<Milliseconds>(now - record->second.used) : 0ms;
    const bool expired =
        known && record->second.idle.count() > 0 && unused > record->second.idle + kTellAgain;
    if (!known || expired) {
      log(LogLevel::info, "e2b_stray_ended", {{"sandbox", one.machine}});
      co_await api_.kill(one.machine);
      continue;
    }
    found.push_back({one.session, record->second.label, true});
    watch(one.session, record->second.idle, Milliseconds{0});
    records.erase(record);
  }
  for (const auto& [id, record] : records) records_.remove(id);
  remove_stray_output(found);
  co_return found;
}

}  // namespace tb::e2b

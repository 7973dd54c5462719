// SPDX-License-Identifier: Apache-2.0
#include "native/provider.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace tb::native {
namespace {

constexpr auto kAnswer = 3s;  // for a sandbox that runs
constexpr auto kTurn = 60s;   // for another program to let go of one
constexpr auto kSetUp = 30s;  // for one that is made, on a busy machine

std::vector<jail::Mount> to_wire(const std::vector<sandbox::Mount>& mounts) {
  std::vector<jail::Mount> wire;
  for (const sandbox::Mount& mount : mounts) {
    using Kind = jail::Mount::Kind;
    wire.push_back({mount.host_directory ? Kind::directory : Kind::volume,
                    static_cast<std::uint8_t>(mount.read_only ? 1 : 0), mount.source,
                    mount.target});
  }
  return wire;
}

}  // namespace

NativeProvider::NativeProvider(asio::any_io_executor executor, const std::string& state_dir,
                               sandbox::OutputLimits output)
    : executor_(executor),
      output_dir_(state_dir + "/output"),
      output_(output),
      keeper_(executor, state_dir) {
  keeper_.on_gone([this](const std::string& id, bool files_kept) {
    forget(id);
    if (files_kept) resting_.insert(id);
    if (gone_) gone_(id, files_kept);
  });
}

std::shared_ptr<NativeSandbox> NativeProvider::connect(std::string id, std::string label,
                                                       os::Fd control) {
  NativeSandbox::Settings settings{output_dir_ + "/" + id, output_, ahead_};
  auto measure = [this](std::string which) { return keeper_.measure(std::move(which)); };
  auto sandbox =
      std::make_shared<NativeSandbox>(executor_, id, std::move(label), std::move(control),
                                      std::move(settings), disk_, std::move(measure));
  sandbox->open();
  open_[id] = sandbox;
  return sandbox;
}

void NativeProvider::forget(const std::string& id) {
  if (resting_.erase(id) > 0) os::remove_tree(output_dir_ + "/" + id);
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  const std::shared_ptr<NativeSandbox> sandbox = found->second.lock();
  open_.erase(found);
  if (!sandbox) return;
  sandbox->close();
  sandbox->remove_files();
}

awaitable<std::shared_ptr<sandbox::Sandbox>> NativeProvider::create(sandbox::SandboxSpec spec) {
  if (spec.network) {
    throw Error{Code::invalid, "sandboxes of this machine have no network: choose network: none"};
  }
  jail::Create create;
  create.id = spec.id;
  create.environment = spec.environment;
  create.limits.memory = spec.limits.memory.count;
  create.limits.disk = spec.limits.disk.count;
  create.limits.cpu_quota = spec.limits.cpu_quota;
  create.limits.pids = spec.limits.pids;
  create.helpers = ahead_.count() > 0 ? 1 : 0;  // the shell that others are copied from
  create.limits.open_files = spec.limits.open_files;
  create.ttl_ms = static_cast<std::uint64_t>(spec.idle.count());
  create.label = spec.label;
  create.programs = std::move(spec.programs);
  create.fail_at = std::exchange(fail_at_, 0);
  create.mounts = to_wire(spec.mounts);
  os::Fd control = co_await keeper_.create(std::move(create));
  auto sandbox = connect(spec.id, spec.label, std::move(control));
  const bool answered = co_await sandbox->wait_ready(kSetUp);
  if (!answered) {
    // Files that were there before are worth more than what was to run.
    if (resting_.contains(spec.id)) {
      disconnect(spec.id);
      co_await keeper_.destroy(spec.id, true);
    } else {
      co_await destroy(spec.id);
    }
    throw Error{Code::unavailable, "the sandbox does not answer"};
  }
  resting_.erase(spec.id);
  co_return sandbox;
}

// What its processes printed stays.
bool NativeProvider::disconnect(const std::string& id) {
  const auto found = open_.find(id);
  if (found == open_.end()) return false;
  const std::shared_ptr<NativeSandbox> sandbox = found->second.lock();
  open_.erase(found);
  if (sandbox) sandbox->close();
  return true;
}

// Output of sandboxes that ended while no server was there.
void NativeProvider::clear_stray_output(const std::vector<sandbox::Found>& known) const {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator{output_dir_, ignored}) {
    const std::string id = entry.path().filename();
    const auto same = [&](const sandbox::Found& found) { return found.id == id; };
    if (std::none_of(known.begin(), known.end(), same)) os::remove_tree(entry.path());
  }
}

awaitable<std::vector<sandbox::Found>> NativeProvider::list() {
  std::vector<sandbox::Found> found;
  for (const jail::Item& item : co_await keeper_.list()) {
    found.push_back({item.id, item.label, item.alive != 0});
    if (item.alive == 0 && !shared_) resting_.insert(item.id);
  }
  if (!shared_) clear_stray_output(found);
  co_return found;
}

awaitable<std::shared_ptr<sandbox::Sandbox>> NativeProvider::adopt(sandbox::Found found) {
  std::exception_ptr failure;
  try {
    os::Fd control = co_await keeper_.attach(found.id);
    auto sandbox = connect(found.id, found.label, std::move(control));
    const bool answered = co_await sandbox->wait_ready(kAnswer);
    if (answered) co_return sandbox;
    failure = std::make_exception_ptr(Error{Code::unavailable, "the sandbox does not answer"});
  } catch (...) {
    failure = std::current_exception();
  }
  // Nobody could reach it any more. Files that belong to somebody are worth more than what runs.
  forget(found.id);
  co_await keeper_.destroy(found.id, !found.label.empty());
  std::rethrow_exception(failure);
}

awaitable<std::shared_ptr<sandbox::Sandbox>> NativeProvider::join(sandbox::Found found) {
  std::optional<os::Fd> control = co_await within(kTurn, keeper_.join(found.id));
  if (!control) {
    throw Error{Code::unavailable, "another program has been using the session for a minute"};
  }
  auto sandbox = connect(found.id, found.label, std::move(*control));
  const bool answered = co_await sandbox->wait_ready(kAnswer);
  if (!answered) throw Error{Code::unavailable, "the sandbox does not answer"};
  co_return sandbox;
}

void NativeProvider::release(sandbox::Sandbox& sandbox) {
  open_.erase(sandbox.id());
  static_cast<NativeSandbox&>(sandbox).detach();
  keeper_.release(sandbox.id());
}

void NativeProvider::assign(sandbox::Sandbox& sandbox, std::string label, Milliseconds idle) {
  static_cast<NativeSandbox&>(sandbox).set_label(label);
  keeper_.tell({sandbox.id(), static_cast<std::uint64_t>(idle.count()), 1, std::move(label)});
}

void NativeProvider::renew(sandbox::Sandbox& sandbox, Milliseconds idle) {
  keeper_.tell({sandbox.id(), static_cast<std::uint64_t>(idle.count()), 0, {}});
}

awaitable<void> NativeProvider::destroy(std::string id) {
  forget(id);
  co_await keeper_.destroy(std::move(id), false);
}

awaitable<bool> NativeProvider::rest(std::string id) {
  try {
    co_await keeper_.rest(id);
  } catch (const Error& error) {
    // An older keeper does not know the word.
    if (error.code() == Code::conflict || error.code() == Code::invalid) co_return false;
    throw;
  }
  // Not so when it was destroyed meanwhile.
  if (disconnect(id)) resting_.insert(id);
  co_return true;
}

awaitable<void> NativeProvider::make_volume(std::string id, Bytes limit, std::string label) {
  jail::MakeVolume volume{std::move(id), limit.count, std::move(label)};
  co_await keeper_.make_volume(std::move(volume));
}

awaitable<std::vector<sandbox::VolumeInfo>> NativeProvider::list_volumes(std::string label_begins) {
  std::vector<sandbox::VolumeInfo> volumes;
  std::vector<jail::VolumeItem> items = co_await keeper_.list_volumes(std::move(label_begins));
  for (jail::VolumeItem& item : items) {
    volumes.push_back({std::move(item.id), Bytes{item.limit}, item.limited != 0,
                       std::move(item.label), std::move(item.users)});
  }
  co_return volumes;
}

awaitable<void> NativeProvider::remove_volume(std::string id) {
  co_await keeper_.remove_volume(std::move(id));
}

void NativeProvider::on_gone(sandbox::OnGone callback) { gone_ = std::move(callback); }

}  // namespace tb::native

// SPDX-License-Identifier: Apache-2.0
#include "docker/provider.h"

#include <sys/stat.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>

#include "base/error.h"
#include "base/id.h"
#include "base/log.h"
#include "docker/container.h"

namespace tb::docker {
namespace {

constexpr auto kSetUp = 60s;     // for a container's first answer
constexpr auto kAnswer = 10s;    // for one that runs
constexpr auto kLookAgain = 1s;  // at an engine that could not be used
constexpr auto kTellAgain = 1s;  // a guest need not hear of every use

}  // namespace

DockerProvider::DockerProvider(asio::any_io_executor executor, DockerSettings settings)
    : executor_(executor),
      settings_(std::move(settings)),
      output_dir_(settings_.state_dir + "/docker/output"),
      engine_(executor, settings_.engine),
      records_(settings_.state_dir + "/docker"),
      guest_volume_(guest_volume_name()),
      guest_changed_(executor),
      made_(executor),
      tasks_(executor, [](const std::string& name, std::exception_ptr) {
        log(LogLevel::warning, "docker_task_failed", {{"task", name}});
      }) {
  std::filesystem::create_directories(output_dir_);
  door_dir_ = std::filesystem::absolute(settings_.state_dir) / "docker/run";
  std::filesystem::create_directories(door_dir_);
  check(::chmod(door_dir_.c_str(), 0711), "chmod " + door_dir_);  // nobody can list it
}

awaitable<void> DockerProvider::close() {
  for (auto& [id, known] : known_) {
    if (known.timer) known.timer->cancel();
  }
  const auto none = [this] { return making_ == 0; };
  co_await made_.until(none, kSetUp);
  co_await tasks_.close();
}

json::object DockerProvider::labels_of(const std::string& id) const {
  return {{kTagLabel, records_.tag()}, {kIdLabel, id}};
}

json::object DockerProvider::describe(const sandbox::SandboxSpec& spec) const {
  ContainerSpec container;
  container.id = spec.id;
  container.image = image_of(spec);
  container.network = settings_.engine.network;
  if (spec.network && container.network == "none") container.network = "bridge";
  container.runtime = settings_.engine.runtime;
  container.workspace_volume = volume_of(spec.id);
  container.guest_volume = guest_volume_;
  container.door_dir = door_dir_;
  container.limits = spec.limits;
  container.labels = labels_of(spec.id);
  return describe_container(container);
}

const std::string& DockerProvider::image_of(const sandbox::SandboxSpec& spec) const {
  return spec.environment.empty() ? settings_.engine.image : spec.environment;
}

std::string DockerProvider::problem() const {
  const auto now = std::chrono::steady_clock::now();
  return now - trouble_at_ < kLookAgain ? trouble_ : std::string{};
}

// What is wrong with one image is no trouble of the others.
void DockerProvider::found_trouble(const Error& error) {
  guest_there_ = false;
  images_.clear();
  if (error.code() != Code::unavailable) return;
  trouble_ = error.what();
  trouble_at_ = std::chrono::steady_clock::now();
}

// Once, however many containers wait for it.
awaitable<void> DockerProvider::ensure_usable(std::string image) {
  while (guest_making_) co_await guest_changed_.wait();
  if (guest_there_ && images_.contains(image)) co_return;
  guest_making_ = true;
  std::exception_ptr failure;
  try {
    co_await engine_.check_usable(image);
    if (!guest_there_) co_await make_guest(image);
    guest_there_ = true;
    images_.insert(image);
    trouble_.clear();
  } catch (const Error& error) {
    found_trouble(error);
    failure = std::current_exception();
  } catch (...) {
    failure = std::current_exception();
  }
  guest_making_ = false;
  guest_changed_.notify_all();
  if (failure) std::rethrow_exception(failure);
}

// Our program lies in a volume that all containers see read-only: no path of this machine need be
// the engine's too.
awaitable<void> DockerProvider::make_guest(std::string image) {
  const std::string name = co_await make_filler(std::move(image), guest_volume_, kGuestDir);
  std::exception_ptr failure;
  try {
    const auto facts = co_await engine_.file_facts(name, kGuestPath);
    if (!facts || facts->size != guest_size()) {
      std::string tar = guest_tar();
      co_await engine_.put_archive(name, kGuestDir, std::move(tar));
    }
  } catch (...) {
    failure = std::current_exception();
  }
  co_await engine_.remove_container(name);
  if (failure) std::rethrow_exception(failure);
}

// A volume's top is as its place in the image, or root's; and the engine puts nothing into a
// container whose root is read-only. So it is done through another one that is never started.
awaitable<void> DockerProvider::own_workspace(std::string image, std::string volume) {
  const std::string name = co_await make_filler(std::move(image), std::move(volume), kWorkspace);
  std::exception_ptr failure;
  try {
    std::string tar = workspace_tar();
    co_await engine_.put_archive(name, "/", std::move(tar));
  } catch (...) {
    failure = std::current_exception();
  }
  co_await engine_.remove_container(name);
  if (failure) std::rethrow_exception(failure);
}

awaitable<std::string> DockerProvider::make_filler(std::string image, std::string volume,
                                                   const char* target) {
  // Known as what no session has: if we die now, the next server removes it.
  const std::string id = "filler-" + make_uuid();
  const std::string name = container_of(id);
  json::object description = describe_filler(image, volume, target, door_dir_);
  description["Labels"] = labels_of(id);
  try {
    co_await engine_.create_container(name, std::move(description));
    co_return name;
  } catch (const Error& error) {
    const bool door = std::string_view{error.what()}.find("bind source") != std::string_view::npos;
    if (!door || door_dir_.empty()) throw;
  }
  // An engine elsewhere has no such directory. All goes through it then.
  door_dir_.clear();
  description = describe_filler(image, volume, target, door_dir_);
  description["Labels"] = labels_of(id);
  co_await engine_.create_container(name, std::move(description));
  co_return name;
}

// What was there when it was looked at may be gone: the engine or the image.
awaitable<std::string> DockerProvider::make_container(std::string image, std::string name,
                                                      json::object description) {
  std::exception_ptr failure;
  bool look_again = false;
  try {
    co_return co_await engine_.create_container(std::move(name), std::move(description));
  } catch (const Error& error) {
    failure = std::current_exception();
    look_again = error.code() != Code::conflict;
    if (look_again) found_trouble(error);
  }
  if (look_again) co_await engine_.check_usable(std::move(image));
  std::rethrow_exception(failure);
}

awaitable<void> DockerProvider::start(sandbox::SandboxSpec spec, bool is_new) {
  const std::string id = spec.id;
  const std::string name = container_of(id);
  const std::string image = image_of(spec);
  json::object description = describe(spec);
  std::string container;
  bool taken = false;
  try {
    container = co_await make_container(image, name, description);
  } catch (const Error& error) {
    taken = error.code() == Code::conflict;
    if (!taken) throw;
  }
  if (taken) {
    // One that could not be reached when the server started, or one that has ended.
    if (co_await engine_.is_running(name)) co_return;
    co_await engine_.remove_container(name);
    container = co_await engine_.create_container(name, std::move(description));
  }
  bool ours = true;
  if (is_new) {
    const auto facts = co_await engine_.file_facts(container, kWorkspace);
    ours = facts && facts->uid == kTenantUid;
  }
  if (!ours) co_await own_workspace(image, volume_of(id));
  co_await engine_.start_container(container);
}

awaitable<std::shared_ptr<DockerSandbox>> DockerProvider::connect(std::string id, std::string label,
                                                                  Milliseconds limit) {
  box::GuestSandbox::Settings settings{output_dir_ + "/" + id, settings_.output, settings_.ahead};
  auto sandbox = std::make_shared<DockerSandbox>(
      executor_, id, std::move(label), std::move(settings), engine_, container_of(id), door_dir_);
  sandbox->open();
  tasks_.spawn("talk to " + id, [this, sandbox]() -> awaitable<void> {
    co_await sandbox->serve();
    lost(sandbox->id());
  });
  std::string why;
  try {
    const bool answered = co_await sandbox->wait_ready(limit);
    if (answered) {
      known_[id].sandbox = sandbox;
      co_return sandbox;
    }
    why = "it does not answer";
  } catch (const Error& error) {
    why = error.what();
  }
  sandbox->close();
  if (!sandbox->trouble().empty()) why += ": " + sandbox->trouble();
  throw Error{Code::unavailable, "Docker: the container can't be used: " + why};
}

// By a task of our own: who waits may be gone before the engine is done, and a container that it
// makes then would be nobody's.
awaitable<std::shared_ptr<sandbox::Sandbox>> DockerProvider::create(sandbox::SandboxSpec spec) {
  struct Made {
    bool over = false;
    std::shared_ptr<DockerSandbox> sandbox;
    std::exception_ptr failure;
  };
  auto made = std::make_shared<Made>();
  const std::string name = "make " + spec.id;
  ++making_;
  tasks_.spawn(name, [this, made, spec = std::move(spec)]() mutable -> awaitable<void> {
    try {
      made->sandbox = co_await make(std::move(spec));
    } catch (...) {
      made->failure = std::current_exception();
    }
    made->over = true;
    --making_;
    made_.notify_all();
  });
  while (!made->over) co_await made_.wait();
  if (made->failure) std::rethrow_exception(made->failure);
  co_return made->sandbox;
}

// `spec.programs` means nothing here: what can be executed is what the image has.
awaitable<std::shared_ptr<DockerSandbox>> DockerProvider::make(sandbox::SandboxSpec spec) {
  co_await ensure_usable(image_of(spec));
  const bool revived = records_.find(spec.id).has_value();
  box::Record record;
  record.label = spec.label;
  record.idle = spec.idle;
  records_.put(spec.id, record);  // before: what has no record is removed by the next server
  const std::string id = spec.id;
  const std::string label = spec.label;
  const Milliseconds idle = spec.idle;
  std::exception_ptr failure;
  std::shared_ptr<DockerSandbox> sandbox;
  try {
    co_await start(std::move(spec), !revived);
    sandbox = co_await connect(id, label, kSetUp);
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    co_await remove(id, !revived);
    std::rethrow_exception(failure);
  }
  watch(id, idle, Milliseconds{0});
  sandbox->lease(idle, settings_.grace);
  co_return sandbox;
}

awaitable<std::shared_ptr<sandbox::Sandbox>> DockerProvider::adopt(sandbox::Found found) {
  std::exception_ptr failure;
  std::shared_ptr<DockerSandbox> sandbox;
  try {
    sandbox = co_await connect(found.id, found.label, kAnswer);
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    // Nobody could reach it any more. Files that belong to somebody are worth more than what runs.
    co_await remove(found.id, found.label.empty());
    std::rethrow_exception(failure);
  }
  sandbox->lease(known_[found.id].idle, settings_.grace);
  co_return sandbox;
}

void DockerProvider::watch(const std::string& id, Milliseconds idle, Milliseconds already) {
  Known& known = known_[id];
  known.idle = idle;
  known.timer.reset();
  if (idle.count() == 0) return;
  known.timer = std::make_unique<asio::steady_timer>(executor_, idle - std::min(already, idle));
  known.timer->async_wait([this, id](boost::system::error_code error) {
    if (!error) expire(id);
  });
}

void DockerProvider::expire(const std::string& id) {
  tasks_.spawn("end " + id, [this, id]() -> awaitable<void> {
    co_await destroy(id);
    if (gone_) gone_(id, false);
  });
}

void DockerProvider::assign(sandbox::Sandbox& sandbox, std::string label, Milliseconds idle) {
  auto& box = static_cast<DockerSandbox&>(sandbox);
  box.set_label(label);
  box::Record record;
  record.label = std::move(label);
  record.idle = idle;
  records_.put(box.id(), record);
  watch(box.id(), idle, Milliseconds{0});
  known_[box.id()].told = std::chrono::steady_clock::now();
  box.lease(idle, settings_.grace);
}

void DockerProvider::renew(sandbox::Sandbox& sandbox, Milliseconds idle) {
  auto& box = static_cast<DockerSandbox&>(sandbox);
  const auto found = known_.find(box.id());
  if (found == known_.end()) return;  // it is being ended
  watch(box.id(), idle, Milliseconds{0});
  const auto now = std::chrono::steady_clock::now();
  if (now - found->second.told < kTellAgain) return;
  found->second.told = now;
  records_.touch(box.id());
  box.lease(idle, settings_.grace);
}

void DockerProvider::forget(const std::string& id) {
  const auto found = known_.find(id);
  if (found == known_.end()) return;
  const std::shared_ptr<DockerSandbox> sandbox = found->second.sandbox.lock();
  known_.erase(found);
  if (!sandbox) return;
  sandbox->close();
  sandbox->remove_files();
}

// The container ended by itself: its files are kept, and their time goes on.
void DockerProvider::lost(const std::string& id) {
  const auto found = known_.find(id);
  if (found == known_.end()) return;  // we ended it, or never had it
  const std::shared_ptr<DockerSandbox> sandbox = found->second.sandbox.lock();
  found->second.sandbox.reset();
  if (!sandbox) return;
  log(LogLevel::warning, "container_lost",
      {{"sandbox", id.substr(0, 12)}, {"why", sandbox->trouble()}});
  sandbox->remove_files();
  if (gone_) gone_(id, true);
}

awaitable<void> DockerProvider::remove(std::string id, bool files) {
  co_await engine_.remove_container(container_of(id));
  if (!files) co_return;
  co_await engine_.remove_volume(volume_of(id));
  records_.remove(id);
}

awaitable<void> DockerProvider::stop_all() {
  const std::map<std::string, bool> boxes = co_await containers();
  for (const auto& [id, running] : boxes) co_await remove(id, false);
}

awaitable<void> DockerProvider::destroy(std::string id) {
  forget(id);
  co_await remove(id, true);
}

}  // namespace tb::docker

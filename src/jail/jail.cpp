// SPDX-License-Identifier: Apache-2.0
#include "jail/jail.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <filesystem>

#include "base/fnv1a.h"
#include "guest/wire.h"
#include "jail/filter.h"
#include "jail/guest_image.h"
#include "jail/places.h"
#include "jail/programs.h"
#include "os/fault.h"
#include "os/landlock.h"
#include "os/mount.h"

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif

namespace tb::jail {
namespace {

constexpr unsigned kShared = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
constexpr std::size_t kMaxConfigs = 64;
constexpr const char* kWritePaths[] = {"/workspace", "/tmp", "/home/sandboxuser",
                                       "/sandbox",   "/dev", "/proc"};

struct Device {
  const char* name;
  unsigned major;
  unsigned minor;
};
constexpr Device kDevices[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
                               {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};

struct Link {
  const char* name;
  const char* target;
};
constexpr Link kLinks[] = {{"fd", "/proc/self/fd"},
                           {"stdin", "/proc/self/fd/0"},
                           {"stdout", "/proc/self/fd/1"},
                           {"stderr", "/proc/self/fd/2"},
                           {"ptmx", "pts/ptmx"}};

os::Fd make_overlay(const Environment::Part& part, bool root, bool confined, const os::Fd& points) {
  os::MountOptions options = {{"source", "threadbox"},
                              {"lowerdir", Environment::lowerdir(part, confined, points)},
                              {"xino", "off"}};
  if (root) {
    for (const char* off : {"redirect_dir", "metacopy", "index"}) options.emplace_back(off, "off");
  } else {
    // Without root only user.* attributes can be read; those features are off then.
    options.emplace_back("userxattr", "");
  }
  return os::make_mount("overlay", options, kShared | MOUNT_ATTR_RDONLY);
}

// Device nodes as root; without root, views of the host's ones over empty files.
void fill_dev(const os::Fd& dev, bool root, Mounted& later) {
  for (const Device& device : kDevices) {
    const mode_t type = root ? S_IFCHR : S_IFREG;
    const dev_t number = root ? ::makedev(device.major, device.minor) : 0;
    os::attempt("mknod", [&] { return ::mknodat(dev.get(), device.name, type, number); });
    os::attempt("chmod", [&] { return ::fchmodat(dev.get(), device.name, 0666, 0); });
    if (root) continue;
    const std::string name = device.name;
    later.emplace_back(
        os::clone_mount(AT_FDCWD, "/dev/" + name, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC),
        "dev/" + name);
  }
  for (const Link& link : kLinks) {
    os::attempt("symlink", [&] { return ::symlinkat(link.target, dev.get(), link.name); });
  }
  for (const char* dir : {"pts", "shm"}) {
    os::attempt("mkdir", [&] { return ::mkdirat(dev.get(), dir, 0755); });
  }
}

void add_dev(Mounted& mounts, bool root, const Limits& limits) {
  Mounted later;
  os::Fd dev = os::make_mount("tmpfs", {{"mode", "0755"}, {"size", "64k"}, {"nr_inodes", "32"}},
                              MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
  fill_dev(dev, root, later);
  mount_attr readonly{};
  readonly.attr_set = MOUNT_ATTR_RDONLY;
  os::attempt("make /dev read-only", [&] {
    return ::mount_setattr(dev.get(), "", AT_EMPTY_PATH, &readonly, sizeof readonly);
  });
  mounts.emplace_back(std::move(dev), "dev");
  for (auto& [mount, path] : later) mounts.emplace_back(std::move(mount), path);
  mounts.emplace_back(
      os::make_mount("devpts",
                     {{"newinstance", ""}, {"mode", "0620"}, {"ptmxmode", "0666"}, {"max", "64"}},
                     MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC),
      "dev/pts");
  mounts.emplace_back(
      os::make_mount(
          "tmpfs",
          {{"mode", "1777"}, {"size", std::to_string(limits.memory / 2)}, {"nr_inodes", "16384"}},
          kShared | MOUNT_ATTR_NOEXEC),
      "dev/shm");
}

void add_mounts(Entry& entry, const Environment& environment, const os::Fd& tree, bool root,
                const os::Fd& points) {
  const os::Fd none;
  for (const Environment::Part& part : environment.parts()) {
    os::Fd overlay = make_overlay(part, root, entry.confined, part.target.empty() ? points : none);
    if (part.target.empty()) {
      entry.root = std::move(overlay);
    } else {
      entry.mounts.emplace_back(std::move(overlay), part.target);
    }
  }
  add_dev(entry.mounts, root, entry.limits);
  // A program of its own would be one that is on no list.
  const unsigned writable = kShared | (entry.confined ? MOUNT_ATTR_NOEXEC : 0);
  entry.mounts.emplace_back(os::clone_mount(tree.get(), "workspace", writable), "workspace");
  entry.mounts.emplace_back(os::clone_mount(tree.get(), "tmp", writable), "tmp");
  entry.mounts.emplace_back(os::clone_mount(tree.get(), "home", writable), "home/sandboxuser");
  entry.mounts.emplace_back(os::clone_mount(tree.get(), "sandbox", writable), "sandbox");
}

std::pair<os::Fd, os::Fd> socket_pair() {
  int ends[2];
  os::attempt("socketpair",
              [&] { return ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends); });
  return {os::Fd{ends[0]}, os::Fd{ends[1]}};
}

void write_maps(pid_t pid, std::uint32_t slot, bool root) {
  const std::string proc = "/proc/" + std::to_string(pid);
  const std::string tenant = std::to_string(kSandboxUid);
  std::string map;
  if (root) {
    map = "0 " + std::to_string(guest_uid(slot)) + " 1\n" + tenant + " " +
          std::to_string(tenant_uid(slot)) + " 1\n";
  } else {
    map = tenant + " 0 1\n";  // 0 is our own uid in the keeper's user namespace
  }
  const auto write = [&](const char* file, const std::string& value) {
    os::attempt(std::string{"write "} + file, [&] {
      os::write_file(proc + "/" + file, value);
      return 0;
    });
  };
  write("uid_map", map);
  if (!root) write("setgroups", "deny");
  write("gid_map", map);
}

// A keeper that the host spares when memory runs out does not pass that on. Done by the keeper:
// what it sets with its capabilities is also the least that the sandbox can go back to.
void expose_to_oom(pid_t pid) {
  static const bool spared = os::read_file("/proc/self/oom_score_adj").starts_with('-');
  if (!spared) return;
  os::attempt("write oom_score_adj", [&] {
    os::write_file("/proc/" + std::to_string(pid) + "/oom_score_adj", "0");
    return 0;
  });
}

pid_t clone_child(const SandboxCgroup& cgroup) {
  clone_args args{};
  args.flags =
      CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
  args.exit_signal = SIGCHLD;
  if (cgroup.unified()) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<std::uint64_t>(cgroup.unified().get());
  }
  return static_cast<pid_t>(
      os::attempt("clone3", [&] { return ::syscall(SYS_clone3, &args, sizeof args); }));
}

void end_child(pid_t pid) {
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

// The child starts into the namespaces; the parent gives it its uids and lets it go on.
pid_t launch(Entry& entry, Jail& jail, bool root) {
  const pid_t pid = clone_child(jail.cgroup);
  if (pid == 0) {
    jail.guest.reset();  // the keeper's end: with it, the child would never hear of the keeper's
    enter(entry);
  }
  try {
    expose_to_oom(pid);
    write_maps(pid, jail.slot, root);
    os::attempt("release the child",
                [&] { return ::send(jail.guest.get(), "g", 1, MSG_NOSIGNAL); });
  } catch (...) {
    end_child(pid);
    throw;
  }
  return pid;
}

os::Fd make_config(const Workshop& workshop, const Environment& environment, const Create& create) {
  const std::vector<std::string>& programs = create.programs;
  const Filters& filters = workshop.filters;
  guest::Config config;
  config.uid = kSandboxUid;
  config.gid = kSandboxUid;
  config.command_cgroups = workshop.cgroups->unified() ? 1 : 0;
  config.disk_check = workshop.disk->kind() == Disk::Kind::btrfs ? 1 : 0;
  config.base_filter = filters.base;
  config.value_filter = filters.values;
  config.command_filter = programs.empty() ? filters.command : filters.confined_command;
  config.write_paths.assign(std::begin(kWritePaths), std::end(kWritePaths));
  config.counters = workshop.cgroups->counters();
  if (!programs.empty()) {
    Confinement confinement = confine_to(environment.image(), programs);
    config.confined = 1;
    config.read_paths = std::move(confinement.read);
    config.run_paths = std::move(confinement.run);
  }
  for (const Mount& mount : create.mounts) {
    auto& paths = mount.read_only ? config.read_paths : config.write_paths;
    paths.push_back(mount.target);
  }
  Writer out;
  config.encode(out);
  return os::sealed_memfd("guest-config", out.view(), false);
}

std::string tag_of(const std::string& state_dir) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(fnv1a(state_dir)));
  return std::string{text, 12};
}

}  // namespace

Environment& Workshop::environment(const std::string& name) {
  const auto found = environments.find(name);
  if (found != environments.end()) return found->second;
  const std::string dir = state_dir + "/env/" + (name == "host" ? name : tag_of(name));
  return environments.emplace(name, Environment::open(name, dir)).first->second;
}

int Workshop::config(Environment& environment, const Create& create) {
  Writer key;
  key.bytes(create.environment);
  key.list(create.programs);
  encode_mounts(key, create.mounts);
  const auto found = configs.find(key.view());
  if (found != configs.end()) return found->second.get();
  if (!create.programs.empty()) {
    if (os::landlock::abi() == 0) {
      throw Error{Code::unavailable,
                  "the kernel has no Landlock, or it is not switched on: a sandbox that may run "
                  "only some programs can't be made"};
    }
    environment.prepare_masks();
  }
  // Sandboxes that run have their own descriptors of what is dropped here.
  if (configs.size() >= kMaxConfigs) configs.clear();
  os::Fd made = make_config(*this, environment, create);
  return configs.emplace(key.take(), std::move(made)).first->second.get();
}

Workshop open_workshop(const std::string& state_dir, bool root,
                       std::vector<std::string> directories) {
  Workshop workshop;
  workshop.directories = find_directories(directories);
  workshop.root = root;
  workshop.state_dir = state_dir;
  if (root) workshop.slots = std::make_unique<Slots>("/run/threadbox/slots");
  workshop.cgroups =
      std::make_unique<CgroupTree>(root ? find_cgroups() : CgroupHost{}, tag_of(state_dir));
  workshop.disk = std::make_unique<Disk>(state_dir + "/disk", root);
  workshop.volumes = std::make_unique<Volumes>(*workshop.disk, state_dir + "/volumes", root);
  workshop.masks = proc_masks();
  const std::string env = state_dir + "/env";
  std::filesystem::create_directories(env);
  // An image may hold set-uid programs: nobody else on this host gets to them.
  check(::chmod(env.c_str(), 0700), "chmod " + env);
  workshop.program = os::sealed_memfd("threadbox-guest", guest_image(), true);
  workshop.waiter = os::sealed_memfd("threadbox-waiter", waiter_image(), true);
  workshop.opening = os::sealed_memfd("threadbox-opening", opening_text(), false);
  workshop.filters = compile_filters();
  workshop.environment("host");
  return workshop;
}

std::unique_ptr<Jail> start_jail(Workshop& workshop, const Create& create,
                                 std::optional<std::uint32_t> wanted_slot) {
  Environment& environment = workshop.environment(create.environment);
  const int config = workshop.config(environment, create);
  auto jail = std::make_unique<Jail>();
  jail->id = create.id;
  jail->environment = create.environment;
  jail->limits = create.limits;
  jail->programs = create.programs;
  jail->mounts = create.mounts;
  if (workshop.slots) jail->slot = workshop.slots->claim(wanted_slot);
  bool made_tree = false;
  try {
    const std::uint32_t guest = workshop.root ? guest_uid(jail->slot) : 0;
    const std::uint32_t tenant = workshop.root ? tenant_uid(jail->slot) : 0;
    Disk::Tree tree = workshop.disk->open_tree(create.id, Bytes{create.limits.disk}, guest, tenant);
    made_tree = !tree.existed;
    Limits with_helpers = create.limits;
    with_helpers.pids += create.helpers;
    jail->cgroup = SandboxCgroup{*workshop.cgroups, create.id, with_helpers, guest};
    Entry entry;
    entry.limits = create.limits;
    entry.confined = !create.programs.empty();
    const MountSources sources{*workshop.disk, *workshop.volumes, workshop.directories,
                               workshop.state_dir};
    const os::Fd points = make_places(sources, environment, tree.top, create, tenant);
    add_mounts(entry, environment, tree.top, workshop.root, points);
    entry.volumes = open_mounts(sources, create, tenant);
    const unsigned flags = kShared | (entry.confined ? MOUNT_ATTR_NOEXEC : 0);
    entry.volumes.emplace_back(os::clone_mount(tree.top.get(), "workspace", flags),
                               "sandbox/workspace");
    entry.attach_point = workshop.state_dir + "/env/host/layers/empty";
    entry.masks = &workshop.masks;
    entry.cgroup = &jail->cgroup;
    for (const std::string& controller : workshop.cgroups->counter_controllers()) {
      const std::string dir = jail->cgroup.dir(controller);
      entry.counter_dirs.emplace_back(os::attempt(
          "open " + dir, [&] { return ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    }
    if (workshop.disk->kind() == Disk::Kind::btrfs) entry.disk = std::move(tree.top);
    std::tie(jail->control, entry.control) = socket_pair();
    std::tie(jail->guest, entry.keeper) = socket_pair();
    entry.config = config;
    entry.program = workshop.program.get();
    entry.waiter = workshop.waiter.get();
    entry.opening = workshop.opening.get();
    entry.hostname = "box-" + create.id.substr(0, 8);
    entry.single_id = !workshop.root;
    jail->pid = launch(entry, *jail, workshop.root);
  } catch (...) {
    jail->cgroup.remove();
    if (made_tree) workshop.disk->remove_tree(create.id);
    if (workshop.slots) workshop.slots->release(jail->slot);
    throw;
  }
  return jail;
}

}  // namespace tb::jail

// SPDX-License-Identifier: Apache-2.0
#include "cli/engine.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "jail/slots.h"
#include "native/launch.h"
#include "os/prompt.h"

namespace tb::cli {

unsigned server_uid() {
  if (::geteuid() != 0) return ::geteuid();
  // Read by hand: a static binary has no name services to ask.
  std::ifstream passwd{"/etc/passwd"};
  for (std::string line; std::getline(passwd, line);) {
    if (!line.starts_with("threadbox:")) continue;
    std::istringstream fields{line};
    std::string name, password, uid;
    std::getline(fields, name, ':');
    std::getline(fields, password, ':');
    std::getline(fields, uid, ':');
    unsigned number = 0;
    std::istringstream{uid} >> number;
    if (number != 0) return number;
  }
  return jail::kServerUid;
}

namespace {

// The server gives up root, and must still reach its files.
void check_reachable(const char* setting, const std::filesystem::path& dir) {
  for (std::filesystem::path at = dir; at.has_relative_path(); at = at.parent_path()) {
    struct stat info{};
    if (::stat(at.c_str(), &info) != 0 || (info.st_mode & S_IXOTH) != 0) continue;
    throw Error{Code::invalid, setting + ("=" + dir.string()) + ": only the owner of " +
                                   at.string() +
                                   " can pass it, and the server does not run as root: choose "
                                   "another directory"};
  }
}

}  // namespace

std::string storage_path(const Config& config) {
  return config.storage_path.empty() ? config.state_dir + "/storage" : config.storage_path;
}

std::string audit_path(const Config& config) {
  if (!config.audit) return {};
  return config.audit_dir.empty() ? config.state_dir + "/audit" : config.audit_dir;
}

void prepare_state(const Config& config) {
  namespace fs = std::filesystem;
  const unsigned uid = server_uid();
  const std::string output = config.state_dir + "/output";
  fs::create_directories(output);
  const std::string store = config.state_dir + "/store";
  fs::create_directories(store);
  const std::string docker = config.state_dir + "/docker";
  fs::create_directories(docker);
  const std::string e2b = config.state_dir + "/e2b";
  fs::create_directories(e2b);
  const std::string auth = config.state_dir + "/auth";
  fs::create_directories(auth);
  const std::string storage = storage_path(config);
  fs::create_directories(storage);
  const std::string audit = audit_path(config);
  if (!audit.empty()) fs::create_directories(audit);
  check(::chmod(config.state_dir.c_str(), 0711), "chmod " + config.state_dir);
  if (::geteuid() == 0) {
    check_reachable("STATE_DIR", fs::absolute(config.state_dir));
    check_reachable("STORAGE_PATH", fs::absolute(storage).parent_path());
    if (!audit.empty()) check_reachable("AUDIT_LOG", fs::absolute(audit).parent_path());
    const std::string& shared = config.checkpoints.store;
    if (shared.starts_with('/')) check_reachable("WORKSPACE_STORE", shared);
  }
  for (const std::string& dir : {output, store, docker, e2b, auth, storage, audit}) {
    if (dir.empty()) continue;
    check(::chmod(dir.c_str(), 0700), "chmod " + dir);
    if (::geteuid() == 0) check(::chown(dir.c_str(), uid, uid), "chown " + dir);
  }
}

os::Fd lock_state(const std::string& state_dir) {
  std::filesystem::create_directories(state_dir);
  const std::string path = state_dir + "/server.lock";
  os::Fd lock{check(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), "open " + path)};
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    throw Error{Code::conflict, "a server for " + state_dir +
                                    " is already running: set STATE_DIR to another directory"};
  }
  return lock;
}

std::string keys_path(const Config& config) { return config.state_dir + "/auth/keys.db"; }

bool prepare(const Config& config, std::vector<std::string> roots,
             std::vector<std::string> directories) {
  prepare_state(config);
  native::KeeperLaunch launch;
  launch.state_dir = config.state_dir;
  launch.server_uid = server_uid();
  launch.grace_seconds = static_cast<unsigned>(config.keeper_grace.count());
  launch.environments = std::move(roots);
  launch.environments.push_back(config.environment);
  launch.directories = std::move(directories);
  return native::ensure_keeper(launch);
}

hooks::Secret load_secret(const Config& config) {
  if (!config.hook_secret.empty()) return hooks::Secret::parse(config.hook_secret);
  bool made = false;
  if (!config.hook_secret_file.empty()) return hooks::read_secret(config.hook_secret_file);
  std::filesystem::create_directories(config.state_dir);
  const std::string path = config.state_dir + "/webhook.secret";
  hooks::Secret secret = hooks::load_or_make_secret(path, made);
  if (made) {
    log(LogLevel::info, "webhook_secret_made", {{"path", path}, {"read_it", "threadbox secret"}});
  }
  return secret;
}

std::vector<unsigned> groups_for(const Config& config) {
  struct stat info{};
  if (!config.docker || ::stat(config.docker_socket.c_str(), &info) != 0) return {};
  // Whoever may use it rules this machine, and root's own group more than that.
  const bool useful = info.st_gid != 0 && (info.st_mode & S_IWGRP) != 0;
  return useful ? std::vector<unsigned>{info.st_gid} : std::vector<unsigned>{};
}

void drop_privileges(unsigned uid, const std::vector<unsigned>& groups) {
  if (::geteuid() != 0) return;
  check(::setgroups(groups.size(), groups.data()), "setgroups");
  for (int cap = 0; cap <= 63; ++cap) {
    if (::prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0) break;
  }
  check(::setresgid(uid, uid, uid), "setresgid");
  check(::setresuid(uid, uid, uid), "setresuid");
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  check(::syscall(SYS_capset, &header, none), "drop capabilities");
  check(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
  check(::prctl(PR_SET_DUMPABLE, 0), "undumpable");
  TB_ASSERT(::setuid(0) != 0);
}

int run_loop(asio::io_context& loop, const std::function<awaitable<int>()>& task) {
  int code = 1;
  std::exception_ptr failure;
  asio::co_spawn(loop, task(), [&](std::exception_ptr error, int result) {
    failure = error;
    code = result;
    loop.stop();
  });
  os::run_promptly();
  loop.run();
  if (failure) std::rethrow_exception(failure);
  return code;
}

int with_engine(const Config& config,
                const std::function<awaitable<int>(native::NativeProvider&)>& work) {
  asio::io_context loop{1};
  native::NativeProvider provider{loop.get_executor(), config.state_dir, config.output};
  provider.start_ahead(config.prestart);
  return run_loop(loop, [&]() -> awaitable<int> {
    int code = 1;
    std::exception_ptr inner;
    try {
      code = co_await work(provider);
    } catch (...) {
      inner = std::current_exception();
    }
    co_await provider.close();
    if (inner) std::rethrow_exception(inner);
    co_return code;
  });
}

}  // namespace tb::cli

// SPDX-License-Identifier: Apache-2.0
#include "jail/environment.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include <filesystem>

#include "base/error.h"
#include "jail/programs.h"

extern char** environ;

namespace tb::jail {
namespace fs = std::filesystem;
namespace {

// Directories that every root needs as places to mount on or to look into.
// clang-format off
constexpr const char* kDirectories[] = {
    "dev", "etc", "home/sandboxuser", "mnt", "opt", "proc", "run", "sandbox", "srv", "root", "sys",
    "tmp", "var/empty", "var/lib", "var/log", "workspace",
};
// clang-format on

// Read by programs of /usr, and no secret of the host.
// clang-format off
constexpr const char* kCopiedFromEtc[] = {
    "alternatives", "debian_version", "fonts", "inputrc", "ld.so.cache", "ld.so.conf",
    "ld.so.conf.d", "locale.alias", "localtime", "magic", "magic.mime", "mime.types",
    "os-release", "perl", "protocols", "python3", "python3.10", "python3.11", "python3.12",
    "python3.13", "services", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone",
};
// clang-format on

struct MadeUp {
  const char* path;
  const char* content;
};
constexpr MadeUp kMadeUp[] = {
    {"etc/passwd",
     "root:x:0:0:root:/root:/usr/sbin/nologin\n"
     "sandboxuser:x:1000:1000:sandbox user:/home/sandboxuser:/bin/bash\n"
     "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"etc/group", "root:x:0:\nsandboxuser:x:1000:\nnogroup:x:65534:\n"},
    {"etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"},
    {"etc/resolv.conf", ""},
    {"etc/hostname", "sandbox\n"},
    {"etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"},
    {"etc/profile", "export PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}\n"},
    {"etc/bash.bashrc", "PS1='\\u@\\h:\\w\\$ '\n"},
};

// Where set-uid programs live. With no_new_privs they gain nothing; without them there is nothing
// to argue about.
constexpr const char* kProgramDirs[] = {"bin",     "sbin",        "local/bin",   "local/sbin",
                                        "libexec", "lib/openssh", "lib/dbus-1.0"};

void copy_readable(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(from, ignored);
  if (fs::is_symlink(status)) {
    fs::create_directories(to.parent_path());
    fs::copy_symlink(from, to, ignored);
  } else if (fs::is_directory(status)) {
    fs::create_directories(to);
    for (const auto& entry : fs::directory_iterator{from, ignored}) {
      copy_readable(entry.path(), to / entry.path().filename());
    }
  } else if (fs::is_regular_file(status) &&
             (status.permissions() & fs::perms::others_read) != fs::perms::none) {
    fs::create_directories(to.parent_path());
    fs::copy_file(from, to, fs::copy_options::overwrite_existing, ignored);
  }
}

void write_new(const fs::path& path, const std::string& content) {
  fs::create_directories(path.parent_path());
  fs::remove(path);
  os::replace_file(path, content, 0644);
}

bool gains_privilege(const fs::path& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  if (info.st_mode & (S_ISUID | S_ISGID)) return true;
  return ::lgetxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

// Whiteouts: overlay's sign that a name is not there. Only root can make them.
void hide_privileged(const fs::path& usr, const fs::path& layer) {
  for (const char* dir : kProgramDirs) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator{usr / dir, ignored}) {
      if (!gains_privilege(entry.path())) continue;
      fs::create_directories(layer / dir);
      ::mknod((layer / dir / entry.path().filename()).c_str(), S_IFCHR, ::makedev(0, 0));
    }
  }
}

void make_directories(const fs::path& root) {
  for (const char* dir : kDirectories) fs::create_directories(root / dir);
  os::replace_file(root / kUnreadableFile, "", 0000);
  std::error_code ignored;
  fs::create_symlink("../tmp", root / "var/tmp", ignored);
  fs::create_symlink("../run", root / "var/run", ignored);
}

// bin -> usr/bin and the like; a host that has not merged them gets an overlay for each.
std::vector<std::string> top_level_programs(const fs::path& root) {
  std::vector<std::string> directories;
  for (const char* name : {"bin", "sbin", "lib", "lib32", "lib64", "libx32"}) {
    const fs::path at = fs::path{"/"} / name;
    std::error_code ignored;
    if (fs::is_symlink(at, ignored)) {
      fs::copy_symlink(at, root / name, ignored);
    } else if (fs::is_directory(at, ignored)) {
      fs::create_directories(root / name);
      directories.push_back(name);
    }
  }
  return directories;
}

void unpack(const std::string& tar, const std::string& to) {
  fs::create_directories(to);
  const char* argv[] = {"tar", "--numeric-owner", "--force-local", "-xf", tar.c_str(),
                        "-C",  to.c_str(),        nullptr};
  pid_t pid = 0;
  const int result =
      ::posix_spawnp(&pid, "tar", nullptr, nullptr, const_cast<char* const*>(argv), environ);
  if (result != 0) throw SystemError{result, "run tar"};
  int status = 0;
  check(::waitpid(pid, &status, 0), "wait for tar");
  if (status != 0) {
    os::remove_tree(to);
    throw Error{Code::invalid, "tar could not unpack the image " + tar};
  }
}

os::Fd open_image(const fs::path& image) {
  return os::Fd{
      check(::open(image.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC), "open " + image.string())};
}

// A file as a process in the image would see it: links of the image lead nowhere else.
std::string read_in_image(const fs::path& image, const std::string& path) {
  const os::Fd root = open_image(image);
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  os::Fd file{static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how))};
  struct stat info{};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  return os::read_file("/proc/self/fd/" + std::to_string(file.get()));
}

// The image's own users, with ours added.
void add_user(const fs::path& image, const fs::path& layer) {
  for (const auto& [file, line] :
       {std::pair{"etc/passwd", kMadeUp[0].content}, std::pair{"etc/group", kMadeUp[1].content}}) {
    std::string content = read_in_image(image, file);
    if (content.find("sandboxuser:") != std::string::npos) continue;
    if (content.empty()) {
      content = line;
    } else {
      const std::string ours{line};
      const std::size_t begin = ours.find("sandboxuser:");
      content += ours.substr(begin, ours.find('\n', begin) + 1 - begin);
    }
    write_new(layer / file, content);
  }
}

}  // namespace

void Environment::add_part(const std::string& target, const std::vector<std::string>& layers) {
  Part part;
  part.target = target;
  for (const std::string& layer : layers) {
    part.layers.emplace_back(
        check(::open(layer.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC), "open " + layer));
  }
  const std::string mask = mask_dir_ + "/" + target;
  fs::create_directories(mask);
  part.mask = os::Fd{check(::open(mask.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC), "open " + mask)};
  parts_.push_back(std::move(part));
}

void Environment::prepare_masks() {
  if (masked_) return;
  // An empty file above: unlike a whiteout it needs no privilege.
  for (const std::string& path : find_helpers(image_)) {
    const fs::path mask = mask_dir_ + path;
    fs::create_directories(mask.parent_path());
    os::replace_file(mask, "", 0000);
  }
  masked_ = true;
}

std::string Environment::lowerdir(const Part& part, bool confined, const os::Fd& points) {
  // By descriptor: no path is too long or contains a colon, and none can change on the way.
  std::string value;
  const auto add = [&value](const os::Fd& layer) {
    if (!value.empty()) value += ':';
    value += "/proc/self/fd/" + std::to_string(layer.get());
  };
  if (confined) add(part.mask);
  if (points) add(points);
  for (const os::Fd& layer : part.layers) add(layer);
  return value;
}

Environment Environment::open(const std::string& name, const std::string& dir) {
  os::remove_tree(dir + "/layers");
  const fs::path root = dir + "/layers/root";
  const fs::path empty = dir + "/layers/empty";
  fs::create_directories(root);
  fs::create_directories(empty);  // an overlay without an upper layer needs two lower ones
  make_directories(root);
  Environment environment;
  environment.mask_dir_ = dir + "/layers/confined";
  if (name == "host") {
    environment.image_ = open_image("/");
    for (const char* file : kCopiedFromEtc) {
      copy_readable(fs::path{"/etc"} / file, root / "etc" / file);
    }
    for (const auto& [path, content] : kMadeUp) write_new(root / path, content);
    const std::vector<std::string> unmerged = top_level_programs(root);
    fs::create_directories(root / "usr");
    const fs::path mask = dir + "/layers/usr";
    fs::create_directories(mask);
    hide_privileged("/usr", mask);
    environment.add_part("", {root, empty});
    environment.add_part("usr", {mask, "/usr"});
    for (const std::string& top : unmerged) environment.add_part(top, {empty, "/" + top});
  } else if (name.starts_with("image:")) {
    const std::string path = name.substr(6);
    std::string image = path;
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      if (!fs::is_regular_file(path, ignored)) {
        throw Error{Code::invalid, "image " + path + " is neither a directory nor a tar file"};
      }
      image = dir + "/image";
      if (!fs::exists(image)) {
        // Under another name until it is whole.
        os::remove_tree(image + ".new");
        unpack(path, image + ".new");
        fs::rename(image + ".new", image);
      }
    }
    environment.image_ = open_image(image);
    add_user(image, root);
    for (const char* file : {"etc/resolv.conf", "etc/hosts"}) {
      for (const auto& [made, content] : kMadeUp) {
        if (std::string_view{made} == file) write_new(root / file, content);
      }
    }
    hide_privileged(fs::path{image} / "usr", root / "usr");
    environment.add_part("", {root, image});
  } else {
    throw Error{Code::invalid, "unknown environment \"" + name + "\": use host or image:<path>"};
  }
  return environment;
}

}  // namespace tb::jail

// SPDX-License-Identifier: Apache-2.0
#include "jail/programs.h"

#include <elf.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

#include "base/error.h"

namespace tb::jail {
namespace fs = std::filesystem;
namespace {

constexpr const char* kPath[] = {"/usr/local/bin", "/usr/bin", "/bin"};
// PID 1 starts the first one, and programs start the other.
constexpr const char* kShells[] = {"bash", "sh"};
// Named after what they are called by: whoever may run one of their links may run all of them.
constexpr const char* kManyInOne[] = {"busybox", "toybox", "coreutils"};

// No programs are mapped from here: mounted noexec (jail/enter.cpp).
constexpr const char* kData[] = {"/etc", "/usr/share", "/usr/local/share"};
constexpr const char* kLibraryRoots[] = {"/lib", "/usr/lib", "/usr/local/lib"};
constexpr const char* kWholeLibraries[] = {"/lib64", "/usr/lib64"};
// Below a library root. All of /usr/lib would be too much: compilers, package managers and servers
// keep their programs there.
constexpr const char* kLibraryNames[] = {"file", "gconv", "locale", "ssl", "terminfo"};
constexpr std::size_t kMaxSingleLibraries = 256;

// A file as a process in the image would reach it.
struct Found {
  os::Fd file;       // O_PATH
  std::string path;  // in the image, without any link
  struct stat info{};
};

std::string link_of(int fd) {
  char text[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t n = ::readlink(link.c_str(), text, sizeof text);
  return n > 0 ? std::string{text, static_cast<std::size_t>(n)} : std::string{};
}

std::optional<Found> find(const os::Fd& image, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  Found found;
  found.file =
      os::Fd{static_cast<int>(::syscall(SYS_openat2, image.get(), path.c_str(), &how, sizeof how))};
  if (!found.file || ::fstat(found.file.get(), &found.info) != 0) return std::nullopt;
  const std::string root = link_of(image.get());
  const std::string real = link_of(found.file.get());
  if (root == "/") {
    found.path = real;
  } else if (real.starts_with(root + "/")) {
    found.path = real.substr(root.size());
  }
  if (!found.path.starts_with("/")) return std::nullopt;
  return found;
}

// What the kernel looks at before it executes a file.
struct Elf {
  unsigned type = ET_NONE;
  std::string interpreter;
};

Elf read_elf(const std::string& file) {
  Elf elf;
  os::Fd fd{::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  Elf64_Ehdr head{};
  if (!fd || ::pread(fd.get(), &head, sizeof head, 0) != sizeof head) return elf;
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return elf;
  elf.type = head.e_type;
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr)) return elf;
  for (unsigned i = 0; i < std::min<unsigned>(head.e_phnum, 64); ++i) {
    Elf64_Phdr part{};
    const auto at = static_cast<off_t>(head.e_phoff + i * sizeof part);
    if (::pread(fd.get(), &part, sizeof part, at) != sizeof part) break;
    if (part.p_type != PT_INTERP || part.p_filesz < 2 || part.p_filesz > 512) continue;
    elf.interpreter.resize(part.p_filesz);
    const ssize_t n =
        ::pread(fd.get(), elf.interpreter.data(), part.p_filesz, static_cast<off_t>(part.p_offset));
    elf.interpreter.resize(n > 0 ? ::strnlen(elf.interpreter.data(), static_cast<std::size_t>(n))
                                 : 0);
  }
  return elf;
}

bool is_library_name(std::string_view name) {
  return name.ends_with(".so") || name.find(".so.") != std::string_view::npos;
}

std::string host_path(const os::Fd& image, const std::string& path) {
  return "/proc/self/fd/" + std::to_string(image.get()) + path;
}

// The names in a directory of the image; none when it is not there.
std::vector<std::string> names_in(const os::Fd& image, const Found& dir) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator{host_path(image, dir.path), ignored}) {
    names.push_back(entry.path().filename());
  }
  return names;
}

bool holds_libraries(const std::string& name) {
  if (name.starts_with("python3") || name.find("-linux-") != std::string::npos) return true;
  return std::find(std::begin(kLibraryNames), std::end(kLibraryNames), name) !=
         std::end(kLibraryNames);
}

// Directories whose files may be mapped as code, and single libraries beside them.
std::set<std::string> find_libraries(const os::Fd& image) {
  std::set<std::string> paths;
  for (const char* whole : kWholeLibraries) {
    // Elsewhere it may be a link to all of /usr/lib.
    const auto found = find(image, whole);
    if (found && found->path == whole && S_ISDIR(found->info.st_mode)) paths.insert(whole);
  }
  std::size_t single = 0;
  for (const char* root : kLibraryRoots) {
    const auto dir = find(image, root);
    if (!dir) continue;
    for (const std::string& name : names_in(image, *dir)) {
      const bool library = is_library_name(name) || name == "os-release";
      if (!library && !holds_libraries(name)) continue;
      const auto found = find(image, dir->path + "/" + name);
      if (!found) continue;
      const bool directory = S_ISDIR(found->info.st_mode);
      if (directory ? !holds_libraries(name) : ++single > kMaxSingleLibraries) continue;
      paths.insert(found->path);
    }
  }
  return paths;
}

class Programs {
 public:
  Programs(const os::Fd& image, const std::vector<std::string>& names) : image_(image) {
    const std::set<std::string> listed{names.begin(), names.end()};
    for (const char* name : kManyInOne) {
      if (listed.contains(name)) continue;
      for_each(name, [&](const Found& found) { forbidden_.insert(inode(found)); });
    }
    for (const char* shell : kShells) add(shell);
    for (const std::string& name : listed) add(name);
  }

  std::vector<std::string> paths() const { return {paths_.begin(), paths_.end()}; }

 private:
  using Inode = std::pair<dev_t, ino_t>;
  static Inode inode(const Found& found) { return {found.info.st_dev, found.info.st_ino}; }

  template <class Visit>
  void for_each(const std::string& name, Visit visit) {
    for (const char* dir : kPath) {
      const auto found = find(image_, std::string{dir} + "/" + name);
      if (found && S_ISREG(found->info.st_mode)) visit(*found);
    }
  }

  void add(const std::string& name) {
    for_each(name, [&](const Found& found) {
      if (forbidden_.contains(inode(found)) || !paths_.insert(found.path).second) return;
      const Elf elf = read_elf("/proc/self/fd/" + std::to_string(found.file.get()));
      if (!elf.interpreter.starts_with("/")) return;
      const auto loader = find(image_, elf.interpreter);
      if (loader && S_ISREG(loader->info.st_mode)) paths_.insert(loader->path);
    });
  }

  const os::Fd& image_;
  std::set<Inode> forbidden_;
  std::set<std::string> paths_;
};

// By name: these are most of the files, and reading each would keep everybody waiting.
bool is_python(std::string_view name) {
  return name.ends_with(".py") || name.ends_with(".pyc") || name.ends_with(".pyi");
}

// A library may have an interpreter too (libc.so.6 prints its version): its name tells it apart.
bool is_helper(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename();
  std::error_code ignored;
  if (is_library_name(name) || is_python(name)) return false;
  if (entry.is_symlink(ignored) || !entry.is_regular_file(ignored)) {
    return false;
  }
  const Elf elf = read_elf(entry.path());
  return elf.type == ET_EXEC || elf.type == ET_DYN;
}

}  // namespace

Confinement confine_to(const os::Fd& image, const std::vector<std::string>& programs) {
  Confinement confinement;
  for (const char* path : kData) {
    // Through a link it would be another place than the one that is made noexec.
    const auto found = find(image, path);
    if (found && found->path == path) confinement.read.push_back(path);
  }
  for (const std::string& path : find_libraries(image)) confinement.read.push_back(path);
  confinement.run = Programs{image, programs}.paths();
  return confinement;
}

std::vector<std::string> find_helpers(const os::Fd& image) {
  std::vector<std::string> helpers;
  const std::string root = host_path(image, "");
  for (const std::string& path : find_libraries(image)) {
    std::error_code error;
    if (!fs::is_directory(root + path, error)) continue;
    // Without root, what we may not look into the tenant, who is us, may not either.
    fs::recursive_directory_iterator at{root + path, fs::directory_options::skip_permission_denied,
                                        error};
    for (; !error && at != fs::recursive_directory_iterator{}; at.increment(error)) {
      if (is_helper(*at)) helpers.push_back(at->path().string().substr(root.size()));
    }
    // Half of a search would let through what the other half hides.
    if (error) throw SystemError{error.value(), "search " + path + " for programs"};
  }
  return helpers;
}

}  // namespace tb::jail

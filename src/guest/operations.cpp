// SPDX-License-Identifier: Apache-2.0
#include "guest/operations.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "guest/tree.h"
#include "os/fdpass.h"

namespace tb::guest::files {
namespace {

using Flag = OperationRequest::Flag;

// A name in its directory, by the path or by what a listing shows of it.
struct Place {
  File directory;
  std::string name;
};

bool find_place(int root, const std::string& path, Place& to) {
  const Split parts = split(path);
  if (!plain_name(parts.name)) return errno = EINVAL, false;
  to.directory = File{open_directory(root, parts.directory)};
  to.name = parts.name;
  if (!to.directory) return false;
  struct stat info{};
  if (::fstatat(to.directory.fd, to.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) return true;
  if (errno != ENOENT) return false;
  const std::string meant = name_shown_as(to.directory.fd, to.name);
  if (meant.empty()) return errno = ENOENT, false;
  to.name = meant;
  return true;
}

Item describe_item(const std::string& path, const struct stat& info) {
  Item item;
  item.entry = describe(path, info);
  if (S_ISREG(info.st_mode)) item.version = version_of(info);
  return item;
}

OperationAnswer describe_at(int directory, const std::string& name, const std::string& path) {
  struct stat info{};
  if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return refuse_by_errno();
  Item item = describe_item(path, info);
  if (S_ISLNK(info.st_mode)) {
    char target[kMaxPath];
    const ssize_t size = ::readlinkat(directory, name.c_str(), target, sizeof target);
    if (size > 0) item.target.assign(target, static_cast<std::size_t>(size));
  }
  OperationAnswer answer;
  answer.items.push_back(std::move(item));
  return answer;
}

OperationAnswer stat_path(const std::string& path, int root) {
  if (path.empty()) return describe_at(root, ".", {});
  Place place;
  if (!find_place(root, path, place)) return refuse_by_errno();
  return describe_at(place.directory.fd, place.name, path);
}

OperationAnswer make_directory(const OperationRequest& request, int root) {
  const Split parts = split(request.path);
  if (!plain_name(parts.name)) return refuse_operation(Reason::bad_name);
  const File parent{request.has(Flag::recursive) ? make_directories(root, parts.directory)
                                                 : open_directory(root, parts.directory)};
  if (!parent) return refuse_by_errno();
  const mode_t mode = request.has(Flag::set_mode) ? request.mode & 0777 : kDirectoryMode;
  const bool made = ::mkdirat(parent.fd, parts.name.c_str(), mode) == 0;
  if (!made && errno != EEXIST) return refuse_by_errno();
  OperationAnswer answer = describe_at(parent.fd, parts.name, request.path);
  if (!made && answer.type == Told::done) {
    if (answer.items.front().entry.type != Type::directory || request.has(Flag::exclusive)) {
      return refuse_operation(Reason::exists);
    }
    answer.complete = 0;
  }
  return answer;
}

OperationAnswer move(const OperationRequest& request, int root) {
  Place from;
  if (!find_place(root, request.path, from)) return refuse_by_errno();
  const Split to = split(request.other);
  if (!plain_name(to.name)) return refuse_operation(Reason::bad_name);
  const File parent{make_directories(root, to.directory)};
  if (!parent) return refuse_by_errno();
  const unsigned flags = request.has(Flag::exclusive) ? RENAME_NOREPLACE : 0;
  if (::syscall(SYS_renameat2, from.directory.fd, from.name.c_str(), parent.fd, to.name.c_str(),
                flags) != 0) {
    // A directory takes no file's place, nor the other way round, nor one that is not empty.
    if (errno == EISDIR || errno == ENOTDIR) return refuse_operation(Reason::exists, errno);
    if (errno == EINVAL) {
      return refuse_operation(Reason::bad_name, errno, "a directory can't be moved into itself");
    }
    return refuse_by_errno();
  }
  return describe_at(parent.fd, to.name, request.other);
}

OperationAnswer remove(const OperationRequest& request, int root, Teller& teller) {
  Place place;
  if (!find_place(root, request.path, place)) return refuse_by_errno();
  if (::unlinkat(place.directory.fd, place.name.c_str(), 0) == 0) return {};
  if (errno != EISDIR) return refuse_by_errno();
  if (::unlinkat(place.directory.fd, place.name.c_str(), AT_REMOVEDIR) == 0) return {};
  if (errno != ENOTEMPTY || !request.has(Flag::recursive)) return refuse_by_errno();
  const auto go_on = [&teller] { return teller.tick(); };
  return remove_tree(place.directory.fd, place.name, go_on) ? OperationAnswer{} : refuse_by_errno();
}

// Copies all of `from` to the end of `to`. On failure nothing of it is left, unless somebody else
// wrote meanwhile.
bool append_file(int from, int to, std::uint64_t before) {
  static char buffer[64 << 10];
  off_t at = 0;
  for (;;) {
    const ssize_t got = ::pread(from, buffer, sizeof buffer, at);
    if (got == 0) return true;
    ssize_t put = 0;
    while (got > 0 && put < got) {
      const ssize_t more =
          ::write(to, buffer + put, static_cast<std::size_t>(got) - static_cast<std::size_t>(put));
      if (more < 0) break;
      put += more;
    }
    at += put;
    if (got < 0 || put < got) {
      const int why = errno;
      struct stat now{};
      const bool ours = ::fstat(to, &now) == 0 &&
                        static_cast<std::uint64_t>(now.st_size) == before + std::uint64_t(at);
      if (ours && ::ftruncate(to, static_cast<off_t>(before)) != 0) errno = why;
      return errno = why, false;
    }
  }
}

OperationAnswer append(const OperationRequest& request, const Workplace& place, int directory,
                       const std::string& name) {
  const File target{open_beneath(directory, name, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOFOLLOW, 0,
                                 RESOLVE_NO_SYMLINKS)};
  struct stat before{};
  struct stat more{};
  if (!target || ::fstat(target.fd, &before) != 0 || ::fstat(place.created.fd, &more) != 0) {
    return refuse_by_errno();
  }
  if (!S_ISREG(before.st_mode)) return refuse_operation(Reason::not_regular);
  const auto size = static_cast<std::uint64_t>(before.st_size);
  if (size + static_cast<std::uint64_t>(more.st_size) > request.file_bytes) {
    return refuse_operation(Reason::too_large);
  }
  char readable[32];
  std::snprintf(readable, sizeof readable, "/proc/self/fd/%d", place.created.fd);
  const File source{::open(readable, O_RDONLY | O_CLOEXEC)};
  if (!source || !append_file(source.fd, target.fd, size)) return refuse_by_errno();
  if (request.has(Flag::set_mode)) ::fchmod(target.fd, request.mode & 0777);
  OperationAnswer answer = describe_at(directory, name, request.path);
  answer.complete = 0;
  return answer;
}

OperationAnswer commit(const OperationRequest& request, const Workplace& place) {
  if (!place.created) return refuse_operation(Reason::failed, EBADF);
  const Split parts = split(request.path);
  if (!plain_name(parts.name)) return refuse_operation(Reason::bad_name);
  const File directory{make_directories(place.root, parts.directory)};
  if (!directory) return refuse_by_errno();
  struct stat before{};
  const bool there = ::fstatat(directory.fd, parts.name.c_str(), &before, AT_SYMLINK_NOFOLLOW) == 0;
  if (there && request.has(Flag::exclusive)) return refuse_operation(Reason::exists);
  if (there && S_ISLNK(before.st_mode)) return refuse_operation(Reason::link);
  if (there && !S_ISREG(before.st_mode)) return refuse_operation(Reason::not_regular);
  if (!request.other.empty() && (!there || version_of(before) != request.other)) {
    return refuse_operation(Reason::changed);
  }
  if (there && request.has(Flag::append)) return append(request, place, directory.fd, parts.name);
  const mode_t kept = there ? before.st_mode : kFileMode;
  const mode_t mode = request.has(Flag::set_mode) ? request.mode : kept;
  ::fchmod(place.created.fd, mode & 0777);
  const bool replaces = !request.has(Flag::exclusive) && !request.has(Flag::append);
  if (!give_name(place.created.fd, directory.fd, parts.name, replaces)) return refuse_by_errno();
  OperationAnswer answer = describe_at(directory.fd, parts.name, request.path);
  answer.complete = there ? 0 : 1;
  place.created = File{};
  return answer;
}

}  // namespace

bool Teller::send(const OperationAnswer& answer, int fd) {
  const std::string message = answer.encode();
  last_ = std::chrono::steady_clock::now();
  for (;;) {
    const int result = os::send_packet(socket_, message, &fd, fd >= 0 ? 1 : 0);
    if (result != 0) return result == 1;
    pollfd poll{socket_, POLLOUT, 0};
    ::poll(&poll, 1, -1);
  }
}

bool Teller::add(Item item) {
  constexpr std::size_t kGoodSize = 32 << 10;  // what comes on top is below 16 KiB
  batched_ += item.size();
  batch_.items.push_back(std::move(item));
  return batched_ < kGoodSize || flush();
}

bool Teller::flush() {
  if (batch_.items.empty()) return true;
  batch_.type = Told::items;
  const bool sent = send(batch_);
  batch_.items.clear();
  batched_ = 0;
  return sent;
}

bool Teller::tick() {
  if (std::chrono::steady_clock::now() - last_ < std::chrono::seconds{1}) return true;
  OperationAnswer working;
  working.type = Told::working;
  return send(working);
}

OperationAnswer refuse_operation(Reason reason, int number, std::string text) {
  OperationAnswer answer;
  answer.type = Told::refused;
  answer.reason = reason;
  answer.number = number;
  answer.text = std::move(text);
  return answer;
}

OperationAnswer refuse_by_errno() { return refuse_operation(reason_of(errno), errno); }

bool obey_operation(std::string_view packet, const Workplace& place) {
  OperationRequest request;
  if (!OperationRequest::decode(packet, request)) return false;
  Teller teller{place.socket};
  switch (request.type) {
    case Operation::stat: return teller.send(stat_path(request.path, place.root));
    case Operation::walk: return walk_names(request, place);
    case Operation::search: return search_lines(request, place);
    case Operation::mkdir: return teller.send(make_directory(request, place.root));
    case Operation::move: return teller.send(move(request, place.root));
    case Operation::remove: return teller.send(remove(request, place.root, teller));
    case Operation::commit: return teller.send(commit(request, place));
    case Operation::archive: return send_archive(request, place);
    case Operation::unpack: return receive_archive(request, place);
  }
  return false;
}

}  // namespace tb::guest::files

// SPDX-License-Identifier: Apache-2.0
// A tar, read from a pipe, becomes a tree below a directory: through no link, whoever made it.
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "guest/gzip.h"
#include "guest/operations.h"
#include "guest/tar.h"
#include "guest/tree.h"

namespace tb::guest::files {
namespace {

constexpr std::size_t kPiece = 64 << 10;

class Unpacker {
 public:
  Unpacker(const OperationRequest& request, int base, int pipe)
      : request_(request),
        base_(base),
        packed_(pipe),
        reader_([this](char* to, std::size_t size) { return packed_.read(to, size); }) {}

  OperationAnswer run() {
    tar::Entry entry;
    for (;;) {
      const tar::Reader::Result result = reader_.next(entry);
      if (result == tar::Reader::Result::bad) return bad(reader_.problem());
      if (result == tar::Reader::Result::end) break;
      if (!take(entry)) return std::move(refusal_);
    }
    if (!drain()) return bad("the archive is cut, or too much follows its end");
    OperationAnswer answer;
    answer.files = files_;
    answer.bytes = bytes_;
    return answer;
  }

 private:
  static OperationAnswer bad(const std::string& problem) {
    return refuse_operation(Reason::bad_archive, 0, problem);
  }
  bool refuse(Reason reason, const tar::Entry& entry) {
    refusal_ = refuse_operation(reason, 0, entry.path.substr(0, 200));
    return false;
  }
  bool refuse_errno(const tar::Entry& entry) {
    if (errno == EISDIR) return refuse(Reason::exists, entry);
    refusal_ = refuse_operation(reason_of(errno), errno, entry.path.substr(0, 200));
    return false;
  }

  // What fills the last record of a tape.
  bool drain() {
    static char buffer[kPiece];
    for (std::uint64_t seen = 0; seen < tar::kMaxTrailing;) {
      const ssize_t got = packed_.read(buffer, sizeof buffer);
      if (got <= 0) return got == 0;
      seen += static_cast<std::uint64_t>(got);
    }
    return false;
  }

  bool take(const tar::Entry& entry) {
    if (entry.kind == tar::Entry::Kind::directory) return make_directory(entry);
    const Split parts = split(entry.path);
    if (!plain_name(parts.name)) return refuse(Reason::bad_name, entry);
    if (!enter(parts.directory)) return refuse_errno(entry);
    if (files_ >= request_.files) return refuse(Reason::too_many, entry);
    ++files_;
    if (entry.kind == tar::Entry::Kind::link) return make_link(entry, parts.name);
    if (entry.kind == tar::Entry::Kind::hard_link) return make_hard_link(entry, parts.name);
    return make_file(entry, parts.name);
  }

  // The directory of the entry; neighbours share it.
  bool enter(const std::string& path) {
    if (parent_ && parent_path_ == path) return true;
    parent_ = File{make_directories(base_, path)};
    parent_path_ = path;
    return static_cast<bool>(parent_);
  }

  bool make_directory(const tar::Entry& entry) {
    if (entry.path.empty()) return true;
    const Split parts = split(entry.path);
    if (!enter(parts.directory)) return refuse_errno(entry);
    // Its owner can go on filling it, whatever the archive says.
    const mode_t mode = entry.mode | 0700;
    if (::mkdirat(parent_.fd, parts.name.c_str(), mode) == 0) return true;
    struct stat info{};
    if (errno != EEXIST) return refuse_errno(entry);
    if (::fstatat(parent_.fd, parts.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      return refuse_errno(entry);
    }
    return S_ISDIR(info.st_mode) || refuse(Reason::exists, entry);
  }

  bool make_file(const tar::Entry& entry, const std::string& name) {
    static char buffer[kPiece];
    if (entry.size > request_.file_bytes) return refuse(Reason::too_large, entry);
    if (entry.size > request_.bytes - bytes_) return refuse(Reason::full, entry);
    const File file{open_beneath(base_, ".", O_TMPFILE | O_WRONLY, kFileMode)};
    if (!file) return refuse_errno(entry);
    while (const ssize_t got = reader_.read(buffer, sizeof buffer)) {
      if (got < 0) {
        refusal_ = bad(reader_.problem());
        return false;
      }
      for (ssize_t put = 0; put < got;) {
        const ssize_t more = ::write(file.fd, buffer + put, static_cast<std::size_t>(got - put));
        if (more < 0) return refuse_errno(entry);
        put += more;
      }
    }
    bytes_ += entry.size;
    ::fchmod(file.fd, entry.mode & 0777);
    const timespec times[2] = {{0, UTIME_OMIT}, {entry.modified, 0}};
    ::futimens(file.fd, times);
    return give_name(file.fd, parent_.fd, name, true) || refuse_errno(entry);
  }

  // `make` gives a name that is free: this one, or one that then takes its place in one step.
  template <class Make>
  bool place(const tar::Entry& entry, const std::string& name, Make make) {
    if (make(name.c_str()) == 0) return true;
    if (errno != EEXIST) return refuse_errno(entry);
    unsigned long long random = 0;
    if (::getrandom(&random, sizeof random, 0) != sizeof random) return refuse_errno(entry);
    char temporary[48];
    std::snprintf(temporary, sizeof temporary, ".unpack-%016llx.tmp", random);
    if (make(temporary) != 0) return refuse_errno(entry);
    const bool placed = ::renameat(parent_.fd, temporary, parent_.fd, name.c_str()) == 0;
    const int why = errno;
    // Also after success: two names of one file are left as they are by rename(2).
    ::unlinkat(parent_.fd, temporary, 0);
    errno = why;
    return placed || refuse_errno(entry);
  }

  // With any text: nothing of ours follows it, and the tenant could make the same.
  bool make_link(const tar::Entry& entry, const std::string& name) {
    return place(entry, name,
                 [&](const char* as) { return ::symlinkat(entry.target.c_str(), parent_.fd, as); });
  }

  bool make_hard_link(const tar::Entry& entry, const std::string& name) {
    const Split parts = split(entry.target);
    const File from{open_beneath(base_, parts.directory.empty() ? "." : parts.directory,
                                 O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS)};
    struct stat info{};
    if (!from || ::fstatat(from.fd, parts.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      return refuse_errno(entry);
    }
    if (!S_ISREG(info.st_mode)) return refuse(Reason::not_regular, entry);
    return place(entry, name, [&](const char* as) {
      return ::linkat(from.fd, parts.name.c_str(), parent_.fd, as, 0);
    });
  }

  const OperationRequest& request_;
  int base_;
  PackedReader packed_;
  tar::Reader reader_;
  OperationAnswer refusal_;
  File parent_;
  std::string parent_path_;
  std::uint64_t files_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace

bool receive_archive(const OperationRequest& request, const Workplace& place) {
  Teller teller{place.socket};
  const File base{make_directories(place.root, request.path)};
  if (!base) return teller.send(refuse_by_errno());
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return teller.send(refuse_by_errno());
  File in{ends[0]};
  OperationAnswer stream;
  stream.type = Told::stream;
  const bool sent = teller.send(stream, ends[1]);
  ::close(ends[1]);
  if (!sent) return false;
  const OperationAnswer answer = Unpacker{request, base.fd, in.fd}.run();
  in = File{};
  return teller.send(answer);
}

}  // namespace tb::guest::files

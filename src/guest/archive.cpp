// SPDX-License-Identifier: Apache-2.0
// A tree as a tar, written into a pipe while it is walked.
#include <fcntl.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "guest/gzip.h"
#include "guest/operations.h"
#include "guest/tar.h"
#include "guest/tree.h"
#include "guest/walk.h"

namespace tb::guest::files {
namespace {

constexpr std::size_t kPiece = 64 << 10;

class Packer {
 public:
  Packer(const OperationRequest& request, const Workplace& place)
      : request_(request), place_(place), teller_(place.socket) {
    paths_ = request.paths.empty() ? std::vector{request.path} : request.paths;
  }

  bool run() {
    // First without a word of content: what is wrong is said while it can still be a refusal.
    for (const std::string& path : paths_) {
      if (!each(path)) return !gone_ && teller_.send(refuse_by_errno());
      if (cut_ || bytes_ > request_.bytes) {
        return teller_.send(refuse_operation(
            Reason::too_large, 0, cut_ ? "too deep or too many names for one archive" : ""));
      }
    }
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return teller_.send(refuse_by_errno());
    File out{ends[1]};
    OperationAnswer stream;
    stream.type = Told::stream;
    const bool sent = teller_.send(stream, ends[0]);
    ::close(ends[0]);
    if (!sent) return false;
    const bool whole = write_all(out.fd);
    out = File{};
    if (bytes_ > request_.bytes) return teller_.send(refuse_operation(Reason::too_large));
    if (!whole) return teller_.send(refuse_operation(Reason::failed, EIO));
    return teller_.send({});
  }

 private:
  bool write_all(int fd) {
    PackedWriter out{fd, request_.has(OperationRequest::gzip)};
    out_ = &out;
    bytes_ = 0;
    for (const std::string& path : paths_) {
      if (!each(path) || broken_) return false;
    }
    const std::string end(2 * tar::kBlock, '\0');
    return out.write(end) && out.finish();
  }

  // A path with all that is below it.
  bool each(const std::string& path) {
    std::string prefix;
    File top;
    if (path.empty()) {
      top = File{open_directory(place_.root, {})};
    } else {
      const Split parts = split(path);
      const File directory{open_directory(place_.root, parts.directory)};
      struct stat info{};
      if (!directory ||
          ::fstatat(directory.fd, parts.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return false;
      }
      const bool alone = paths_.size() == 1;
      if (!S_ISDIR(info.st_mode)) {
        return add(directory.fd, parts.name, alone ? parts.name : path, info);
      }
      if (!alone && !add(directory.fd, parts.name, path, info)) return false;
      if (!alone) prefix = path + "/";
      top = File{open_beneath(directory.fd, parts.name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0,
                              RESOLVE_NO_SYMLINKS)};
    }
    if (!top) return false;
    Walk walk{top.fd, true};
    const bool could = walk.run([&](const Visit& visit) {
      const bool good = add(visit.directory, visit.name, prefix + visit.path, visit.info);
      return good ? Next::below : Next::stop;
    });
    cut_ = cut_ || walk.cut();
    return could && !gone_;
  }

  bool add(int directory, const std::string& name, const std::string& path,
           const struct stat& info) {
    // While nothing is written yet; later the pipe tells whether anybody is there.
    if (!out_ && !teller_.tick()) return gone_ = true, false;
    if (S_ISREG(info.st_mode)) bytes_ += static_cast<std::uint64_t>(info.st_size);
    if (bytes_ > request_.bytes) return !out_;  // the first look goes on, to tell this apart
    if (!out_) return true;
    tar::Entry entry;
    entry.path = path;
    entry.mode = info.st_mode & 0777;
    entry.modified = info.st_mtim.tv_sec;
    broken_ = !write_entry(directory, name, info, entry);
    return !broken_;
  }

  bool write_entry(int directory, const std::string& name, const struct stat& info,
                   tar::Entry& entry) {
    if (S_ISREG(info.st_mode)) return write_file(directory, name, info, entry);
    if (S_ISDIR(info.st_mode)) {
      entry.kind = tar::Entry::Kind::directory;
      return out_->write(tar::make_header(entry));
    }
    if (!S_ISLNK(info.st_mode)) return true;
    char target[kMaxPath];
    const ssize_t size = ::readlinkat(directory, name.c_str(), target, sizeof target);
    if (size <= 0) return true;
    entry.kind = tar::Entry::Kind::link;
    entry.target.assign(target, static_cast<std::size_t>(size));
    return out_->write(tar::make_header(entry));
  }

  // As many bytes as the header says, whatever happens to the file meanwhile: what is missing at
  // its end is zeros.
  bool write_file(int directory, const std::string& name, const struct stat& counted,
                  tar::Entry& entry) {
    static char buffer[kPiece];
    const File file{open_beneath(directory, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0,
                                 RESOLVE_NO_SYMLINKS)};
    struct stat info{};
    if (!file || ::fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode)) return true;
    entry.size = static_cast<std::uint64_t>(info.st_size);
    bytes_ += entry.size - static_cast<std::uint64_t>(counted.st_size);  // it may have changed
    if (bytes_ > request_.bytes) return false;
    if (!out_->write(tar::make_header(entry))) return false;
    std::uint64_t left = entry.size;
    while (left > 0) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left, sizeof buffer));
      ssize_t got = ::read(file.fd, buffer, size);
      if (got < 0) return false;
      if (got == 0) {
        std::fill_n(buffer, size, '\0');
        got = static_cast<ssize_t>(size);
      }
      if (!out_->write({buffer, static_cast<std::size_t>(got)})) return false;
      left -= static_cast<std::uint64_t>(got);
    }
    return out_->write(std::string(tar::padding_of(entry.size), '\0'));
  }

  const OperationRequest& request_;
  const Workplace& place_;
  Teller teller_;
  std::vector<std::string> paths_;
  PackedWriter* out_ = nullptr;  // null: only looking
  std::uint64_t bytes_ = 0;
  bool cut_ = false;
  bool broken_ = false;
  bool gone_ = false;  // who asked
};

}  // namespace

bool send_archive(const OperationRequest& request, const Workplace& place) {
  return Packer{request, place}.run();
}

}  // namespace tb::guest::files

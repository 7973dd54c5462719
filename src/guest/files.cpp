// SPDX-License-Identifier: Apache-2.0
#include "guest/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "guest/files_wire.h"
#include "guest/names.h"
#include "guest/operations.h"
#include "guest/tree.h"
#include "os/fdpass.h"

namespace tb::guest::files {
namespace {

Answer refuse(Reason reason, int number = 0) {
  Answer answer;
  answer.type = Message::refused;
  answer.reason = reason;
  answer.number = number;
  return answer;
}

Answer refuse_errno() { return refuse(reason_of(errno), errno); }

class Helper {
 public:
  Helper(int root, int sandbox, int socket) : root_(root), sandbox_(sandbox), socket_(socket) {}

  void run() {
    static char buffer[os::kMaxPacket];
    for (;;) {
      os::Packet packet{buffer, sizeof buffer};
      wait_for(POLLIN);
      if (os::receive_packet(socket_, packet) != 1) return;
      for (std::size_t i = 0; i < packet.fd_count; ++i) ::close(packet.fds[i]);
      if (is_operation({packet.data, packet.size})) {
        if (!obey_operation({packet.data, packet.size}, {root_, socket_, new_})) return;
        continue;
      }
      Request request;
      if (!Request::decode({packet.data, packet.size}, request)) return;
      if (!obey(request)) return;
    }
  }

 private:
  void wait_for(short events) const {
    pollfd poll{socket_, events, 0};
    ::poll(&poll, 1, -1);
  }

  bool send(const Answer& answer, int fd = -1) {
    const std::string message = answer.encode();
    for (;;) {
      const int result = os::send_packet(socket_, message, &fd, fd >= 0 ? 1 : 0);
      if (result != 0) return result == 1;
      wait_for(POLLOUT);
    }
  }

  // Which tree a path is in: the workspace, or /sandbox.
  struct Place {
    int root;
    std::string path;
  };
  Place place_of(const std::string& path) const {
    constexpr std::string_view kSandbox = "/sandbox";
    const bool named = std::string_view{path}.starts_with(kSandbox);
    if (sandbox_ < 0 || !named) return {root_, path};
    if (path.size() == kSandbox.size()) return {sandbox_, {}};
    if (path[kSandbox.size()] != '/') return {root_, path};
    return {sandbox_, path.substr(kSandbox.size() + 1)};
  }

  bool obey(const Request& request) {
    switch (request.type) {
      case Message::open: return open(place_of(request.path));
      case Message::create: return create();
      case Message::commit: return send(commit(place_of(request.path)));
      case Message::list: return list(place_of(request.path), request.most);
      case Message::usage: return usage(request.most);
      default: return false;
    }
  }

  bool open(const Place& place) {
    File file{open_beneath(place.root, place.path, O_RDONLY | O_NONBLOCK | O_NOCTTY)};
    if (!file && errno == ENOENT) file = File{open_by_shown_name(place)};
    if (!file) return send(refuse_errno());
    return send_opened(file, split(place.path).name);
  }

  // What a listing shows of a name that is not UTF-8 finds the file again.
  int open_by_shown_name(const Place& place) {
    const Split parts = split(place.path);
    File directory{open_directory(place.root, parts.directory)};
    const std::string name = directory ? name_shown_as(directory.fd, parts.name) : std::string{};
    if (name.empty()) return errno = ENOENT, -1;
    return open_beneath(directory.fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  }

  bool send_opened(const File& file, const std::string& name) {
    struct stat info{};
    if (::fstat(file.fd, &info) != 0) return send(refuse_errno());
    if (!S_ISREG(info.st_mode)) return send(refuse(Reason::not_regular));
    Answer answer;
    answer.type = Message::opened;
    answer.entries.push_back(describe(name, info));
    return send(answer, file.fd);
  }

  // Without a name nothing of it is left when the upload breaks off, whoever dies.
  bool create() {
    new_ = File{open_beneath(root_, ".", O_TMPFILE | O_RDWR, kFileMode)};
    if (!new_) return send(refuse_errno());
    return send_opened(new_, {});
  }

  // A file gets no name on another mount than its own.
  bool move_to(int root) {
    File copy{open_beneath(root, ".", O_TMPFILE | O_RDWR, kFileMode)};
    if (!copy) return false;
    static char buffer[64 << 10];
    for (off_t at = 0;;) {
      const ssize_t got = ::pread(new_.fd, buffer, sizeof buffer, at);
      if (got < 0) return false;
      if (got == 0) break;
      for (ssize_t put = 0; put < got;) {
        const ssize_t n = ::write(copy.fd, buffer + put, static_cast<std::size_t>(got - put));
        if (n < 0) return false;
        put += n;
      }
      at += got;
    }
    new_ = std::move(copy);
    return true;
  }

  Answer commit(const Place& place) {
    if (!new_) return refuse(Reason::failed, EBADF);
    const Split parts = split(place.path);
    if (!plain_name(parts.name)) return refuse(Reason::bad_name);
    if (place.root != root_ && !move_to(place.root)) return refuse_errno();
    File directory{make_directories(place.root, parts.directory)};
    if (!directory) return refuse_errno();
    struct stat before{};
    if (::fstatat(directory.fd, parts.name.c_str(), &before, AT_SYMLINK_NOFOLLOW) == 0) {
      if (S_ISLNK(before.st_mode)) return refuse(Reason::link);
      if (!S_ISREG(before.st_mode)) return refuse(Reason::not_regular);
      // As an editor would: the content is new, the permissions stay.
      ::fchmod(new_.fd, before.st_mode & 0777);
    }
    if (!give_name(new_.fd, directory.fd, parts.name, true)) return refuse_errno();
    struct stat info{};
    ::fstat(new_.fd, &info);
    Answer answer;
    answer.entries.push_back(describe(parts.name, info));
    new_ = File{};
    return answer;
  }

  bool list(const Place& place, std::uint64_t most) {
    File directory{
        open_beneath(place.root, place.path.empty() ? "." : place.path, O_RDONLY | O_DIRECTORY)};
    if (!directory) return send(refuse_errno());
    constexpr std::size_t kBatch = 128;  // names of 255 bytes still fit into one packet
    Answer batch;
    batch.type = Message::entries;
    bool sent = true;
    const bool complete = each_entry(directory.fd, most, [&](Entry entry) {
      batch.entries.push_back(std::move(entry));
      if (batch.entries.size() < kBatch) return true;
      sent = send(batch);
      batch.entries.clear();
      return sent;
    });
    if (sent && !batch.entries.empty()) sent = send(batch);
    Answer end;
    end.complete = complete ? 1 : 0;
    return sent && send(end);
  }

  bool usage(std::uint64_t most) {
    const Tally tally = tally_tree(root_, most);
    Answer answer;
    answer.type = Message::used;
    answer.files = tally.files;
    answer.bytes = tally.bytes;
    answer.complete = tally.complete ? 1 : 0;
    return send(answer);
  }

  int root_;
  int sandbox_;  // -1: there is none
  int socket_;
  File new_;
};

}  // namespace

void serve(int root, int socket, int sandbox) { Helper{root, sandbox, socket}.run(); }

}  // namespace tb::guest::files

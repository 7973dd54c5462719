// SPDX-License-Identifier: Apache-2.0
#include "storage/artifacts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/id.h"
#include "base/log.h"
#include "storage/artifact_files.h"

namespace tb::storage {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kPiece = 256 << 10;
constexpr auto kSweep = std::chrono::hours{1};
constexpr std::size_t kMaxText = 1024;
constexpr Bytes kEach = 4_KiB;  // its description, and what file systems and we keep for it
constexpr const char* kSession = "session_";

std::string mebibytes(Bytes bytes) { return std::to_string(bytes.count >> 20) + " MiB"; }

void subtract(Bytes& from, Bytes what) { from.count -= std::min(from.count, what.count); }

}  // namespace

// A file that is not there before commit().
class Artifacts::Writing {
 public:
  Writing(Artifacts& artifacts, Artifact like) : artifacts_(artifacts), artifact_(std::move(like)) {
    artifacts_.reserve_one(artifact_.session);
    ++artifacts_.writing_;
    path_ = artifacts_.path_of(artifact_);
  }
  ~Writing() {
    --artifacts_.writing_;
    if (committed_) return;
    artifacts_.release(artifact_.session, artifact_.size);
    ::unlink(path_.c_str());
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  awaitable<void> write(std::string_view bytes) {
    artifacts_.reserve(artifact_.session, Bytes{bytes.size()});
    artifact_.size = artifact_.size + Bytes{bytes.size()};
    auto work = [this, bytes] {
      if (!file_) file_ = create_artifact_file(path_);
      write_bytes(file_, bytes);
      return 0;
    };
    co_await on_pool(artifacts_.disk_, work);
  }

  awaitable<Artifact> commit() {
    artifact_.created = std::chrono::system_clock::now();
    auto work = [this] {
      if (!file_) file_ = create_artifact_file(path_);
      finish_artifact_file(file_, path_, artifact_);
      return 0;
    };
    co_await on_pool(artifacts_.disk_, work);
    committed_ = true;
    artifacts_.artifacts_[artifact_.id] = artifact_;
    co_return artifact_;
  }

 private:
  Artifacts& artifacts_;
  Artifact artifact_;
  std::string path_;
  os::Fd file_;
  bool committed_ = false;
};

class Artifacts::Reading : public sandbox::OpenFile {
 public:
  Reading(asio::thread_pool& disk, const Artifact& artifact, os::Fd file)
      : disk_(disk), file_(std::move(file)) {
    info_.name = artifact.name;
    info_.size = artifact.size;
    info_.modified = artifact.created;
    info_.version = artifact.id;  // its bytes never change
  }
  const sandbox::FileInfo& info() const override { return info_; }
  awaitable<std::size_t> read(std::uint64_t offset, std::span<char> out) override {
    auto work = [fd = file_.get(), offset, out] {
      return check(::pread(fd, out.data(), out.size(), static_cast<off_t>(offset)),
                   "read an artifact");
    };
    const ssize_t got = co_await on_pool(disk_, work);
    co_return static_cast<std::size_t>(got);
  }

 private:
  asio::thread_pool& disk_;
  sandbox::FileInfo info_;
  os::Fd file_;
};

Artifacts::Artifacts(asio::any_io_executor executor, std::string dir, ArtifactLimits limits)
    : executor_(executor),
      dir_(std::move(dir)),
      limits_(limits),
      tasks_(executor, [](const std::string& name, std::exception_ptr) {
        log(LogLevel::debug, "task_ended", {{"task", name}});
      }) {
  fs::create_directories(dir_);
  load();
}

void Artifacts::load() {
  for (const auto& entry : fs::directory_iterator{dir_}) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kSession) || !entry.is_directory()) continue;
    load_session(entry.path(), name.substr(std::string_view{kSession}.size()));
    ::rmdir(entry.path().c_str());  // if nothing is left in it
  }
}

void Artifacts::load_session(const std::string& path, const std::string& session) {
  for (Artifact& artifact : load_artifact_files(path, session)) add(std::move(artifact));
}

void Artifacts::add(Artifact artifact) {
  Held& held = sessions_[artifact.session];
  held.bytes = held.bytes + artifact.size + kEach;
  ++held.count;
  used_ = used_ + artifact.size + kEach;
  const std::string id = artifact.id;
  artifacts_.emplace(id, std::move(artifact));
}

void Artifacts::check_room(const Held& held, Bytes more) const {
  if (held.bytes + more > limits_.per_session) {
    throw ArtifactsFull{"a session keeps at most " + mebibytes(limits_.per_session) +
                        " of artifacts (ARTIFACT_SESSION_MB): remove some first"};
  }
  if (used_ + more > limits_.in_all) {
    throw ArtifactsFull{"the artifacts of all sessions have reached " + mebibytes(limits_.in_all) +
                        " (ARTIFACT_TOTAL_MB): remove some first"};
  }
}

// One more file, without bytes yet.
void Artifacts::reserve_one(const std::string& session) {
  const Held held = sessions_.contains(session) ? sessions_[session] : Held{};
  if (held.count >= limits_.count) {
    throw ArtifactsFull{"a session keeps at most " + std::to_string(limits_.count) +
                        " artifacts: remove some first"};
  }
  if (artifacts_.size() + writing_ >= limits_.count_in_all) {
    throw ArtifactsFull{"all sessions together keep at most " +
                        std::to_string(limits_.count_in_all) + " artifacts: remove some first"};
  }
  check_room(held, kEach);
  Held& now = sessions_[session];
  ++now.count;
  now.bytes = now.bytes + kEach;
  used_ = used_ + kEach;
}

void Artifacts::reserve(const std::string& session, Bytes more) {
  Held& held = sessions_[session];
  check_room(held, more);
  held.bytes = held.bytes + more;
  used_ = used_ + more;
}

void Artifacts::release(const std::string& session, Bytes size) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  subtract(found->second.bytes, size + kEach);
  subtract(used_, size + kEach);
  if (found->second.count > 1) {
    --found->second.count;
    return;
  }
  sessions_.erase(found);
  ::rmdir((dir_ + "/" + kSession + session).c_str());
}

std::string Artifacts::path_of(const Artifact& artifact) const {
  return dir_ + "/" + kSession + artifact.session + "/" + artifact.id;
}

void Artifacts::open() {
  tasks_.spawn("expire artifacts", [this] { return sweep(); });
}

awaitable<void> Artifacts::sweep() {
  asio::steady_timer timer{executor_};
  for (;;) {
    const std::size_t gone = expire(std::chrono::system_clock::now());
    if (gone > 0) log(LogLevel::info, "artifacts_expired", {{"count", std::to_string(gone)}});
    timer.expires_after(kSweep);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

std::size_t Artifacts::expire(WallTime now) {
  std::vector<std::string> old;
  for (const auto& [id, artifact] : artifacts_) {
    if (artifact.created + limits_.age <= now) old.push_back(id);
  }
  for (const std::string& id : old) erase(id);
  return old.size();
}

awaitable<Artifact> Artifacts::keep(Artifact like, std::string bytes) {
  if (!is_session_name(like.session)) throw Error{Code::invalid, "no session of this name"};
  like.id = make_uuid();
  like.size = {};
  for (std::string* text : {&like.name, &like.type, &like.source}) {
    if (text->size() > kMaxText) text->resize(kMaxText);
  }
  Writing writing{*this, std::move(like)};
  const std::string_view view = bytes;
  for (std::size_t at = 0; at < view.size(); at += kPiece) {
    const std::string_view piece = view.substr(at, kPiece);
    co_await writing.write(piece);
  }
  co_return co_await writing.commit();
}

awaitable<Artifact> Artifacts::keep(Artifact like, sandbox::OpenFile& file) {
  if (!is_session_name(like.session)) throw Error{Code::invalid, "no session of this name"};
  like.id = make_uuid();
  like.size = {};
  // Refused before the first byte when it can't fit.
  const Held held = sessions_.contains(like.session) ? sessions_[like.session] : Held{};
  if (held.bytes + file.info().size > limits_.per_session) {
    throw ArtifactsFull{"a session keeps at most " + mebibytes(limits_.per_session) +
                        " of artifacts (ARTIFACT_SESSION_MB): remove some first"};
  }
  Writing writing{*this, std::move(like)};
  std::string buffer(kPiece, '\0');
  for (std::uint64_t at = 0;;) {
    const std::span<char> room{buffer};
    const std::size_t got = co_await file.read(at, room);
    if (got == 0) break;
    const std::string_view piece{buffer.data(), got};
    co_await writing.write(piece);
    at += got;
  }
  co_return co_await writing.commit();
}

std::optional<Artifact> Artifacts::find(const std::string& id) const {
  const auto found = artifacts_.find(id);
  return found == artifacts_.end() ? std::nullopt : std::optional{found->second};
}

Artifact Artifacts::get(const std::string& id) const {
  if (auto found = find(id)) return std::move(*found);
  throw Error{Code::not_found, "Artifact not found: " + id.substr(0, 64)};
}

std::vector<Artifact> Artifacts::list(const std::string& tenant, const std::string& session,
                                      const std::string& user) const {
  std::vector<Artifact> found;
  for (const auto& [id, artifact] : artifacts_) {
    if (artifact.tenant != tenant) continue;
    if (!session.empty() && artifact.session != session) continue;
    if (!user.empty() && artifact.user != user) continue;
    found.push_back(artifact);
  }
  std::sort(found.begin(), found.end(), [](const Artifact& a, const Artifact& b) {
    return std::tie(b.created, b.id) < std::tie(a.created, a.id);
  });
  return found;
}

awaitable<std::unique_ptr<sandbox::OpenFile>> Artifacts::read(std::string id) {
  const Artifact artifact = get(id);
  const std::string path = path_of(artifact);
  os::Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (!file) throw Error{Code::not_found, "the bytes of artifact " + id + " are gone"};
  co_return std::make_unique<Reading>(disk_, artifact, std::move(file));
}

void Artifacts::erase(const std::string& id) {
  const auto found = artifacts_.find(id);
  if (found == artifacts_.end()) return;
  const Artifact artifact = std::move(found->second);
  artifacts_.erase(found);
  remove_artifact_file(path_of(artifact));
  release(artifact.session, artifact.size);
}

awaitable<void> Artifacts::remove(std::string id) {
  static_cast<void>(get(id));
  erase(id);
  co_return;
}

void Artifacts::forget_earlier(const Artifact& kept) {
  for (const Artifact& one : list(kept.tenant, kept.session)) {
    const bool same = one.source == kept.source && one.origin == kept.origin;
    if (same && one.id != kept.id) erase(one.id);
  }
}

}  // namespace tb::storage

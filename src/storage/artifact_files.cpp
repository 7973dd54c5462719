// SPDX-License-Identifier: Apache-2.0
#include "storage/artifact_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <set>

namespace tb::storage {
namespace json = boost::json;
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kDescription = ".json";
constexpr std::string_view kTemporary = ".new";

struct TypeRow {
  std::string_view ending;
  const char* type;
};
constexpr TypeRow kTypes[] = {
    {".txt", "text/plain"},      {".log", "text/plain"},      {".md", "text/markdown"},
    {".csv", "text/csv"},        {".html", "text/html"},      {".json", "application/json"},
    {".png", "image/png"},       {".jpg", "image/jpeg"},      {".jpeg", "image/jpeg"},
    {".gif", "image/gif"},       {".svg", "image/svg+xml"},   {".pdf", "application/pdf"},
    {".zip", "application/zip"}, {".gz", "application/gzip"}, {".tar", "application/x-tar"},
    {".py", "text/x-python"},    {".js", "text/javascript"},  {".wav", "audio/wav"},
    {".mp4", "video/mp4"},       {".xml", "application/xml"},
};

std::string describe(const Artifact& artifact) {
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(artifact.created.time_since_epoch());
  return json::serialize(json::object{{"id", artifact.id},
                                      {"session", artifact.session},
                                      {"thread", artifact.thread},
                                      {"user", artifact.user},
                                      {"tenant", artifact.tenant},
                                      {"name", artifact.name},
                                      {"type", artifact.type},
                                      {"source", artifact.source},
                                      {"origin", artifact.origin},
                                      {"size", artifact.size.count},
                                      {"created_ms", ms.count()}});
}

bool parse(const std::string& text, Artifact& to) {
  boost::system::error_code error;
  const json::value value = json::parse(text, error);
  const json::object* object = error ? nullptr : value.if_object();
  if (!object) return false;
  const auto read = [&](const char* key) -> std::string {
    const json::value* found = object->if_contains(key);
    return found && found->is_string() ? std::string{found->get_string()} : std::string{};
  };
  const auto number = [&](const char* key) -> std::int64_t {
    const json::value* found = object->if_contains(key);
    boost::system::error_code wrong;
    return found ? found->to_number<std::int64_t>(wrong) : 0;
  };
  to.id = read("id");
  to.session = read("session");
  to.thread = read("thread");
  to.user = read("user");
  to.tenant = read("tenant");
  to.name = read("name");
  to.type = read("type");
  to.source = read("source");
  to.origin = read("origin");
  to.size = Bytes{static_cast<std::uint64_t>(std::max<std::int64_t>(0, number("size")))};
  constexpr std::int64_t kLatest = 1ll << 42;
  to.created = WallTime{
      std::chrono::milliseconds{std::clamp<std::int64_t>(number("created_ms"), 0, kLatest)}};
  return true;
}

void sync_directory(const std::string& file) {
  const std::string dir = fs::path{file}.parent_path();
  const os::Fd fd{::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (fd) ::fsync(fd.get());
}

}  // namespace

std::string media_type_of(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (name.ends_with(row.ending)) return row.type;
  }
  return "application/octet-stream";
}

bool is_session_name(std::string_view name) {
  if (name.empty() || name.size() > 64) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

os::Fd create_artifact_file(const std::string& path) {
  fs::create_directories(fs::path{path}.parent_path());
  return os::Fd{
      check(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600),
            "make an artifact")};
}

void write_bytes(const os::Fd& file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(file.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && (errno == ENOSPC || errno == EDQUOT)) {
      throw ArtifactsFull{"the disk of STORAGE_PATH is full"};
    }
    bytes.remove_prefix(static_cast<std::size_t>(check(put, "write an artifact")));
  }
}

void finish_artifact_file(const os::Fd& file, const std::string& path, const Artifact& artifact) {
  check(::fsync(file.get()), "write an artifact");
  const std::string description = path + std::string{kDescription};
  const std::string temporary = description + std::string{kTemporary};
  {
    const os::Fd json{check(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600),
        "describe an artifact")};
    write_bytes(json, describe(artifact));
    check(::fsync(json.get()), "describe an artifact");
  }
  check(::rename(temporary.c_str(), description.c_str()), "describe an artifact");
  sync_directory(path);
}

void remove_artifact_file(const std::string& path) {
  ::unlink((path + std::string{kDescription}).c_str());
  ::unlink(path.c_str());
}

std::vector<Artifact> load_artifact_files(const std::string& dir, const std::string& session) {
  std::vector<Artifact> found;
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator{dir}) names.insert(entry.path().filename());
  std::set<std::string> whole;
  for (const std::string& name : names) {
    if (!name.ends_with(kDescription)) continue;
    Artifact artifact;
    const std::string id = name.substr(0, name.size() - kDescription.size());
    struct stat info{};
    if (!parse(os::read_file(dir + "/" + name), artifact) || artifact.id != id ||
        artifact.session != session || ::lstat((dir + "/" + id).c_str(), &info) != 0 ||
        !S_ISREG(info.st_mode) || static_cast<std::uint64_t>(info.st_size) != artifact.size.count) {
      continue;
    }
    whole.insert(name);
    whole.insert(id);
    found.push_back(std::move(artifact));
  }
  for (const std::string& name : names) {
    if (!whole.contains(name)) os::remove_tree(dir + "/" + name);
  }
  return found;
}

}  // namespace tb::storage

// SPDX-License-Identifier: Apache-2.0
#include "box/records.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/codec.h"
#include "base/id.h"
#include "os/fd.h"

namespace tb::box {
namespace {

constexpr std::uint8_t kVersion = 2;

}  // namespace

Records::Records(std::string dir) : dir_(std::move(dir)) {
  std::filesystem::create_directories(dir_);
  const std::string file = dir_ + "/tag";
  if (::access(file.c_str(), R_OK) == 0) tag_ = os::read_file(file, 64);
  if (!tag_.empty()) return;
  tag_ = make_uuid();
  os::replace_file(file, tag_, 0600);
}

void Records::put(const std::string& id, const Record& record) const {
  Writer out;
  out.u8(kVersion);
  out.bytes(record.machine);
  out.bytes(record.label);
  out.u64(static_cast<std::uint64_t>(record.idle.count()));
  os::replace_file(path(id), out.view(), 0600);
}

void Records::touch(const std::string& id) const {
  ::utimensat(AT_FDCWD, path(id).c_str(), nullptr, 0);
}

std::optional<Record> Records::find(const std::string& id) const {
  struct stat info{};
  if (::stat(path(id).c_str(), &info) != 0) return std::nullopt;
  const std::string text = os::read_file(path(id));
  Reader in{text};
  if (in.u8() != kVersion) return std::nullopt;
  Record record;
  record.machine = in.bytes();
  record.label = in.bytes();
  record.idle = Milliseconds{static_cast<std::int64_t>(in.u64())};
  if (!in.done()) return std::nullopt;
  record.used = std::chrono::system_clock::from_time_t(info.st_mtim.tv_sec);
  return record;
}

std::map<std::string, Record> Records::all() const {
  std::map<std::string, Record> found;
  for (const auto& entry : std::filesystem::directory_iterator{dir_}) {
    if (entry.path().extension() != ".box") continue;
    const std::string id = entry.path().stem();
    if (auto record = find(id)) found.emplace(id, std::move(*record));
  }
  return found;
}

void Records::remove(const std::string& id) const { ::unlink(path(id).c_str()); }

}  // namespace tb::box

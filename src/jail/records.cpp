// SPDX-License-Identifier: Apache-2.0
#include "jail/records.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "base/fnv1a.h"
#include "os/fd.h"

namespace tb::jail {
namespace fs = std::filesystem;
namespace {

constexpr std::uint32_t kFormat = 0x54425234;        // "TBR4"
constexpr std::uint32_t kThirdFormat = 0x54425233;   // "TBR3": without a checksum
constexpr std::uint32_t kSecondFormat = 0x54425232;  // "TBR2": without mounts, too
constexpr std::uint32_t kFirstFormat = 0x54425231;   // "TBR1": without programs, too

// As much as a kill can't cut: the kernel copies it in one go.
constexpr std::size_t kPage = 4096;

std::string encode_fields(const Record& record) {
  Writer out;
  out.bytes(record.environment);
  record.limits.encode(out);
  out.u32(record.slot);
  out.u64(record.ttl_ms);
  out.bytes(record.label);
  out.list(record.programs);
  encode_mounts(out, record.mounts);
  return out.take();
}

std::string encode(const Record& record) {
  const std::string fields = encode_fields(record);
  Writer out;
  out.u32(kFormat);
  out.u64(fnv1a(fields));  // tells whether a write was whole, nothing more
  out.bytes(fields);
  return out.take();
}

bool decode_fields(std::uint32_t format, std::string_view text, Record& record) {
  Reader in{text};
  record.environment = in.bytes();
  record.limits = Limits::decode(in);
  record.slot = in.u32();
  record.ttl_ms = in.u64();
  record.label = in.bytes();
  if (format >= kSecondFormat) record.programs = in.list();
  if (format >= kThirdFormat) record.mounts = decode_mounts(in);
  return in.done() && valid_programs(record.programs) && valid_mounts(record.mounts);
}

bool decode(std::string_view text, Record& record) {
  Reader in{text};
  const std::uint32_t format = in.u32();
  if (format < kFirstFormat || format > kFormat) return false;
  if (format < kFormat) return decode_fields(format, text.substr(sizeof format), record);
  const std::uint64_t sum = in.u64();
  const std::string fields = in.bytes();  // what follows is left of a longer one
  return in.ok() && sum == fnv1a(fields) && decode_fields(format, fields, record);
}

// Over the one that is there. A new file instead of it costs a place in the file system, whose
// search takes up to a millisecond where many were deleted, and rename(2) over another one a flush.
bool write_over(const std::string& path, const std::string& text) {
  const os::Fd file{text.size() <= kPage ? ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
                                         : -1};
  return file &&
         ::pwrite(file.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

}  // namespace

Records::Records(std::string dir) : dir_(std::move(dir)) {
  fs::create_directories(dir_);
  fs::permissions(dir_, fs::perms::owner_all);  // names of sessions are not for everybody
}

std::map<std::string, Record> Records::load() {
  std::map<std::string, Record> records;
  for (const auto& entry : fs::directory_iterator{dir_}) {
    const std::string name = entry.path().filename();
    if (!valid_id(name)) continue;  // temporary and set-aside files
    Record record;
    std::error_code ignored;
    if (entry.is_regular_file(ignored) && decode(os::read_file(entry.path()), record)) {
      records.emplace(name, std::move(record));
    } else {
      damaged_.push_back(name);
      fs::rename(entry.path(), entry.path().string() + ".damaged", ignored);
    }
  }
  return records;
}

void Records::save(const std::string& id, const Record& record) {
  const std::string path = dir_ + "/" + id;
  const std::string text = encode(record);
  if (!write_over(path, text)) os::replace_file(path, text, 0600);
}

void Records::remove(const std::string& id) { ::unlink((dir_ + "/" + id).c_str()); }

}  // namespace tb::jail

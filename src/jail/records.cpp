// SPDX-License-Identifier: Apache-2.0
#include "jail/records.h"

#include <unistd.h>

#include <filesystem>

#include "os/fd.h"

namespace tb::jail {
namespace fs = std::filesystem;
namespace {

constexpr std::uint32_t kFormat = 0x54425233;        // "TBR3"
constexpr std::uint32_t kSecondFormat = 0x54425232;  // "TBR2": without mounts
constexpr std::uint32_t kFirstFormat = 0x54425231;   // "TBR1": without programs, too

std::string encode(const Record& record) {
  Writer out;
  out.u32(kFormat);
  out.bytes(record.environment);
  record.limits.encode(out);
  out.u32(record.slot);
  out.u64(record.ttl_ms);
  out.bytes(record.label);
  out.list(record.programs);
  encode_mounts(out, record.mounts);
  return out.take();
}

bool decode(std::string_view text, Record& record) {
  Reader in{text};
  const std::uint32_t format = in.u32();
  if (format < kFirstFormat || format > kFormat) return false;
  record.environment = in.bytes();
  record.limits = Limits::decode(in);
  record.slot = in.u32();
  record.ttl_ms = in.u64();
  record.label = in.bytes();
  if (format >= kSecondFormat) record.programs = in.list();
  if (format >= kFormat) record.mounts = decode_mounts(in);
  return in.done() && valid_programs(record.programs) && valid_mounts(record.mounts);
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
  os::replace_file(dir_ + "/" + id, encode(record), 0600);
}

void Records::remove(const std::string& id) { ::unlink((dir_ + "/" + id).c_str()); }

}  // namespace tb::jail

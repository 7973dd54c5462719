// SPDX-License-Identifier: Apache-2.0
// Puts bytes into the keeper's directory of records: loading must not throw, and what it takes for
// a record must be saved as the same bytes again.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "jail/records.h"
#include "os/fd.h"

namespace {

// In memory where that is possible: this is made and removed many times a second.
std::string make_directory() {
  std::string path =
      ::access("/dev/shm", W_OK) == 0 ? "/dev/shm/tb-fuzz-XXXXXX" : "/tmp/tb-fuzz-XXXXXX";
  if (!::mkdtemp(path.data())) std::abort();
  return path;
}

struct Directory {
  std::string path = make_directory();
  ~Directory() { std::filesystem::remove_all(path); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Directory directory;
  const std::string_view bytes{reinterpret_cast<const char*>(data), size};
  const std::string file = directory.path + "/id";
  tb::os::replace_file(file, bytes, 0600);
  tb::jail::Records records{directory.path};
  const auto all = records.load();
  if (const auto found = all.find("id"); found != all.end()) {
    records.save("id", found->second);
    std::string expected{bytes};
    if (expected[0] == '1') {  // of the first format: saved as the second, with no programs
      expected[0] = '2';
      expected.append(4, '\0');
    }
    if (tb::os::read_file(file) != expected) std::abort();
  } else if (std::filesystem::exists(file)) {
    std::abort();  // it must have been set aside
  }
  return 0;
}

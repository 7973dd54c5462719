// SPDX-License-Identifier: Apache-2.0
// Whatever the file says that tells the order of two streams: all that they hold can be read, each
// byte once, and in the order of its stream.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "box/output.h"

namespace {

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
  using tb::box::Stream;
  static const Directory directory;
  static const std::string out = "abcdefghijklmnop";
  static const std::string err = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const std::string_view order{reinterpret_cast<const char*>(data), size};
  const std::string path = directory.path + "/1";
  tb::os::replace_file(path + ".out", out, 0600);
  tb::os::replace_file(path + ".err", err, 0600);
  tb::os::replace_file(path + ".order", order, 0600);
  const tb::box::Output output{path, {}};
  const std::string all = output.read(Stream::all, 0, 1000);
  std::string small;
  std::string large;
  std::copy_if(all.begin(), all.end(), std::back_inserter(small), [](char c) { return c >= 'a'; });
  std::copy_if(all.begin(), all.end(), std::back_inserter(large), [](char c) { return c < 'a'; });
  if (small != out || large != err) std::abort();
  std::string pages;
  for (std::string page; !(page = output.read(Stream::all, pages.size(), 5)).empty();) {
    pages += page;
  }
  if (pages != all) std::abort();
  return 0;
}

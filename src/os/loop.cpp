// SPDX-License-Identifier: Apache-2.0
#include "os/loop.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <utility>

namespace tb::os::loop {
namespace {

bool configure(const Fd& device, const Fd& file, std::uint32_t flags) {
  loop_config config{};
  config.fd = static_cast<std::uint32_t>(file.get());
  config.info.lo_flags = LO_FLAGS_AUTOCLEAR | flags;
  return ::ioctl(device.get(), LOOP_CONFIGURE, &config) == 0;
}

// The device that already shows this file: two of them would write over each other.
Device find_attached(const Fd& file) {
  struct stat wanted{};
  check(::fstat(file.get(), &wanted), "stat an image");
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator{"/sys/block", ignored}) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("loop")) continue;
    const std::string path = "/dev/" + name;
    Fd device{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
    loop_info64 info{};
    // While we have it open it stays attached.
    if (!device || ::ioctl(device.get(), LOOP_GET_STATUS64, &info) != 0) continue;
    if (info.lo_inode == wanted.st_ino && info.lo_device == wanted.st_dev) {
      return {std::move(device), path};
    }
  }
  return {};
}

}  // namespace

Device attach(const Fd& file) {
  // An earlier keeper's mount may live on for a moment: then its device is the one to use.
  if (Device attached = find_attached(file); attached.fd) return attached;
  Fd control{check(::open("/dev/loop-control", O_RDWR | O_CLOEXEC), "open /dev/loop-control")};
  // Another process may take the free device first: try the next.
  for (int tries = 0; tries < 64; ++tries) {
    const int number = check(::ioctl(control.get(), LOOP_CTL_GET_FREE), "find a free loop device");
    const std::string path = "/dev/loop" + std::to_string(number);
    if (::access(path.c_str(), F_OK) != 0) {
      // Without devtmpfs or udev nobody makes the node.
      ::mknod(path.c_str(), S_IFBLK | 0600, ::makedev(7, static_cast<unsigned>(number)));
    }
    Fd device{check(::open(path.c_str(), O_RDWR | O_CLOEXEC), "open " + path)};
    // Direct I/O keeps one copy of the data in memory, not two; not every filesystem has it.
    if (configure(device, file, LO_FLAGS_DIRECT_IO)) return {std::move(device), path};
    if (errno != EBUSY && configure(device, file, 0)) return {std::move(device), path};
    if (errno != EBUSY) throw SystemError{errno, "configure " + path};
  }
  throw Error{Code::unavailable, "no free loop device"};
}

void refresh_size(const Device& device) {
  check(::ioctl(device.fd.get(), LOOP_SET_CAPACITY), "refresh the size of " + device.path);
}

}  // namespace tb::os::loop

// SPDX-License-Identifier: Apache-2.0
// Loop devices: a file as a disk. The device goes away with its last user.
#pragma once

#include <string>

#include "os/fd.h"

namespace tb::os::loop {

struct Device {
  Fd fd;
  std::string path;
};

Device attach(const Fd& file);
// After the file grew.
void refresh_size(const Device& device);

}  // namespace tb::os::loop

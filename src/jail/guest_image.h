// SPDX-License-Identifier: Apache-2.0
// The guest program, which CMake builds first and this binary carries.
#pragma once

#include <string_view>

extern "C" const char tb_guest_begin[];
extern "C" const char tb_guest_end[];

namespace tb::jail {

inline std::string_view guest_image() {
  return {tb_guest_begin, static_cast<std::size_t>(tb_guest_end - tb_guest_begin)};
}

}  // namespace tb::jail

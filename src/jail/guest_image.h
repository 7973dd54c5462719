// SPDX-License-Identifier: Apache-2.0
// The guest program, which CMake builds first and this binary carries; and what it needs to start a
// shell ahead.
#pragma once

#include <string_view>

extern "C" const char tb_guest_begin[];
extern "C" const char tb_guest_end[];
extern "C" const char tb_waiter_begin[];
extern "C" const char tb_waiter_end[];
extern "C" const char tb_opening_begin[];
extern "C" const char tb_opening_end[];

namespace tb::jail {

inline std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<std::size_t>(end - begin)};
}
inline std::string_view guest_image() { return between(tb_guest_begin, tb_guest_end); }
inline std::string_view waiter_image() { return between(tb_waiter_begin, tb_waiter_end); }
inline std::string_view opening_text() { return between(tb_opening_begin, tb_opening_end); }

}  // namespace tb::jail

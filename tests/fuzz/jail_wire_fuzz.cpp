// SPDX-License-Identifier: Apache-2.0
// Feeds bytes to every decoder of the keeper's protocol: none may crash, and what one accepts must
// encode to the same bytes again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "jail/wire.h"

namespace {

template <class T>
void try_decode(std::string_view bytes) {
  tb::Reader in{bytes};
  T message;
  if (!T::decode(in, message)) return;
  tb::Writer out;
  message.encode(out);
  if (out.view() != bytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes{reinterpret_cast<const char*>(data), size};
  try_decode<tb::jail::Create>(bytes);
  try_decode<tb::jail::MakeVolume>(bytes);
  try_decode<tb::jail::VolumeItem>(bytes);
  try_decode<tb::jail::Label>(bytes);
  try_decode<tb::jail::Item>(bytes);
  try_decode<tb::jail::Welcome>(bytes);
  if (tb::jail::valid_id(bytes) && bytes.find_first_of("/.") != bytes.npos) std::abort();
  return 0;
}

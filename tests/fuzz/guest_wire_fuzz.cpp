// SPDX-License-Identifier: Apache-2.0
// Feeds bytes to every decoder of the guest's protocol: none may crash, and what one accepts must
// encode to the same bytes again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "guest/wire.h"

namespace {

using tb::guest::Message;

void encode(const auto& message, tb::Writer& out) { message.encode(out); }
void encode(const tb::guest::Failure& failure, tb::Writer& out) {
  failure.encode(out, Message::start_failed);
}

// `type_bytes`: what encode() writes before the fields.
template <class T>
void try_decode(std::string_view bytes, std::size_t type_bytes = 1) {
  tb::Reader in{bytes};
  T message;
  if (!T::decode(in, message)) return;
  tb::Writer out;
  encode(message, out);
  if (std::string_view{out.view()}.substr(type_bytes) != bytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes{reinterpret_cast<const char*>(data), size};
  try_decode<tb::guest::Start>(bytes);
  try_decode<tb::guest::Signal>(bytes);
  try_decode<tb::guest::Release>(bytes);
  try_decode<tb::guest::Ready>(bytes);
  try_decode<tb::guest::Failure>(bytes);
  try_decode<tb::guest::Started>(bytes);
  try_decode<tb::guest::ShellState>(bytes);
  try_decode<tb::guest::CloseInput>(bytes);
  try_decode<tb::guest::Exited>(bytes);
  try_decode<tb::guest::Config>(bytes, 0);
  return 0;
}

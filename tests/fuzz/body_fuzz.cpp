// SPDX-License-Identifier: Apache-2.0
// Feeds bytes to the reader of JSON bodies and to the fields that handlers ask for: nothing but an
// HttpError may come out, and a timeout is within its bounds.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string>

#include "api/fields.h"
#include "base/utf8.h"
#include "http/test_exchange.h"

namespace {

namespace json = boost::json;

void ask_fields(const json::object& body) {
  for (const char* name : {"timeout", "command", "session_id", "a"}) {
    try {
      const auto text = tb::api::find_text(body, name);
      if (text && !tb::is_utf8(*text)) std::abort();
    } catch (const tb::http::HttpError&) {
    }
    try {
      tb::api::find_number(body, name);
    } catch (const tb::http::HttpError&) {
    }
  }
  try {
    const auto timeout = tb::api::find_timeout(body);
    if (timeout && (timeout->count() < 1 || timeout->count() > 86400000)) std::abort();
  } catch (const tb::http::HttpError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  tb::http::TestExchange exchange{"POST", "/x",
                                  std::string{reinterpret_cast<const char*>(data) + 1, size - 1}};
  if (data[0] % 2 == 1) exchange.chunk(1 + data[0] / 2);
  static boost::asio::io_context loop{1};
  json::object body;
  boost::asio::co_spawn(loop, tb::api::read_object(exchange),
                        [&](std::exception_ptr failure, json::object read) {
                          if (!failure) body = std::move(read);
                          try {
                            if (failure) std::rethrow_exception(failure);
                          } catch (const tb::http::HttpError&) {
                          }
                        });
  loop.restart();
  loop.run();
  ask_fields(body);
  return 0;
}

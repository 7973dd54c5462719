// SPDX-License-Identifier: Apache-2.0
// Names for requests, by which an answer and the log's lines about it are found again.
#pragma once

#include <cstdint>
#include <string>

#include "http/message.h"

namespace tb::http {

class RequestIds {
 public:
  RequestIds();

  // The X-Request-Id that the client sent, if it is 1 to 64 of [A-Za-z0-9._-]; else a new one.
  std::string choose(const Headers& headers);

  // One that no other server, and no earlier run of this one, has given.
  std::string make();

 private:
  std::string prefix_;
  std::uint64_t next_ = 0;
};

}  // namespace tb::http

// SPDX-License-Identifier: Apache-2.0
// Bytes to replies and commands to bytes, by hiredis; without sockets.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "redis/reply.h"

struct redisReader;

namespace tb::redis {

// A command's words, binary-safe.
using Command = std::vector<std::string>;

std::string format(const Command& command);

class ReplyReader {
 public:
  // More than `limit` of replies that were not taken yet is refused.
  explicit ReplyReader(Bytes limit = Bytes{64 << 20});
  ~ReplyReader();

  // Throws Error{unavailable} when there is too much.
  void feed(std::string_view bytes);
  // Empty until one is complete. Throws Error{unavailable} on what is no reply.
  std::optional<Reply> next();

 private:
  struct Free {
    void operator()(redisReader* reader) const;
  };
  std::unique_ptr<redisReader, Free> reader_;
  std::size_t limit_;
  std::size_t waiting_ = 0;  // bytes since the reader was last empty
};

}  // namespace tb::redis

// SPDX-License-Identifier: Apache-2.0
// Objects as files of a directory that several machines have mounted. Disks of that kind may block
// for long: only threads of a pool wait for them.
#pragma once

#include "checkpoints/objects.h"

namespace tb::checkpoints {

class Directory final : public Objects {
 public:
  explicit Directory(std::string path) : path_(std::move(path)) {}

  awaitable<void> put(std::string key, std::string bytes) override;
  awaitable<std::optional<std::string>> get(std::string key) override;
  awaitable<std::vector<std::string>> list(std::string prefix) override;
  awaitable<void> remove(std::string key) override;

 private:
  const std::string path_;
  asio::thread_pool pool_{2};
};

}  // namespace tb::checkpoints

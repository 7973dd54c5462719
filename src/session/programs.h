// SPDX-License-Identifier: Apache-2.0
// What a sandbox is confined to. Copies share one list: it may be long, and each session has one.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policy/policy.h"

namespace tb::session {

class Programs {
 public:
  using Names = std::vector<std::string>;

  Programs() = default;  // any
  explicit Programs(Names names) : names_(std::make_shared<const Names>(std::move(names))) {}
  explicit Programs(const policy::Policy& policy)
      : names_(policy.confines() ? policy.share_programs() : nullptr) {}

  const Names& names() const {
    static const Names none;
    return names_ ? *names_ : none;
  }
  friend bool operator==(const Programs& one, const Programs& other) {
    return one.names_ == other.names_ || one.names() == other.names();
  }

 private:
  std::shared_ptr<const Names> names_;
};

}  // namespace tb::session

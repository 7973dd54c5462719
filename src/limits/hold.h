// SPDX-License-Identifier: Apache-2.0
// Something of which one may only have so many: while it lives, it counts.
#pragma once

#include <memory>
#include <utility>

#include "limits/limits.h"

namespace tb::limits {

class Hold {
 public:
  // Throws Exceeded. Null where there are no limits.
  static std::shared_ptr<Hold> take(Limits* limits, Identity who, Stock stock) {
    if (!limits || !limits->active()) return nullptr;
    limits->hold(who, stock);
    return std::shared_ptr<Hold>(new Hold{*limits, std::move(who), stock});
  }
  // Of what was there before us: it counts, whatever the limits say.
  static std::shared_ptr<Hold> count(Limits* limits, Identity who, Stock stock) {
    if (!limits || !limits->active()) return nullptr;
    limits->count(who, stock);
    return std::shared_ptr<Hold>(new Hold{*limits, std::move(who), stock});
  }
  ~Hold() { limits_.release(who_, stock_); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  Hold(Limits& limits, Identity who, Stock stock)
      : limits_(limits), who_(std::move(who)), stock_(stock) {}

  Limits& limits_;
  Identity who_;
  Stock stock_;
};

}  // namespace tb::limits

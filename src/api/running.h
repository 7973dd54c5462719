// SPDX-License-Identifier: Apache-2.0
// What is being answered at the moment, and to whom: streams and WebSockets go on for hours, and a
// key may end meanwhile.
#pragma once

#include <functional>
#include <list>

#include "auth/principal.h"
#include "http/exchange.h"

namespace tb::api {

class Running {
  struct Row {
    const auth::Principal* who;
    http::Exchange* exchange;
  };

 public:
  // While it lives, this exchange is one of them. `who` and `exchange` outlive it.
  class Entry {
   public:
    Entry(Running& all, const auth::Principal& who, http::Exchange& exchange)
        : all_(all), at_(all.rows_.insert(all.rows_.end(), Row{&who, &exchange})) {}
    ~Entry() { all_.rows_.erase(at_); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    Running& all_;
    std::list<Row>::iterator at_;
  };

  // Ends the connections of those who are not good any more.
  void cut_unless(const std::function<bool(const auth::Principal&)>& good) {
    for (const Row& row : rows_) {
      if (!good(*row.who)) row.exchange->cut();
    }
  }

 private:
  std::list<Row> rows_;
};

}  // namespace tb::api

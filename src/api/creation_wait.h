// SPDX-License-Identifier: Apache-2.0
// Who waits for a session: as long as the server lets it, and as long as it is there.
#pragma once

#include <memory>

#include "api/service.h"
#include "session/waiting_line.h"

namespace tb::api {

class CreationWait {
 public:
  CreationWait(const Service& service, Call& call)
      : exchange_(call.exchange),
        patience_(std::make_shared<session::Patience>(call.principal.tenant, service.create_wait)) {
    if (service.create_wait.count() == 0) return;
    exchange_.on_peer_closed([patience = patience_] { patience->give_up(); });
    watched_ = true;
  }
  ~CreationWait() {
    if (watched_) exchange_.on_peer_closed(nullptr);
  }
  CreationWait(const CreationWait&) = delete;
  CreationWait& operator=(const CreationWait&) = delete;
  const std::shared_ptr<session::Patience>& patience() const { return patience_; }

 private:
  http::Exchange& exchange_;
  std::shared_ptr<session::Patience> patience_;
  bool watched_ = false;
};

}  // namespace tb::api

// SPDX-License-Identifier: Apache-2.0
// In front of the workers: finds the one that a request is meant for, and passes it on. Knows
// nothing that it could not learn again, so any number of them may stand side by side.
#pragma once

#include <memory>
#include <string>

#include "base/metrics.h"
#include "cluster/address.h"
#include "cluster/fleet.h"
#include "http/exchange.h"
#include "http/relay.h"

namespace tb::cluster {

class Coordinator {
 public:
  Coordinator(asio::any_io_executor executor, Fleet& fleet);

  awaitable<void> handle(http::Exchange& exchange);

 private:
  struct Asked {
    Addressee addressee;
    std::string begun;   // of the body
    bool whole = false;  // that is all of it: it can be sent again
    bool creates = false;
    std::vector<http::Header> caller;  // by which a worker knows who asks
  };
  awaitable<Asked> read(http::Exchange& exchange);
  std::shared_ptr<Worker> find_named(const http::Request& request) const;
  awaitable<std::shared_ptr<Worker>> place(const Asked& asked);
  awaitable<void> pass_on(http::Exchange& exchange, const Asked& asked);
  awaitable<std::shared_ptr<Worker>> attempt(http::Exchange& exchange, const Asked& asked,
                                             std::shared_ptr<Worker> worker);
  std::shared_ptr<Worker> instead_of(Worker& worker, const Asked& asked, bool sent,
                                     const std::string& problem);
  awaitable<std::shared_ptr<Worker>> redirect(http::Exchange& exchange,
                                              http::Relay::Passage& passage, const Asked& asked,
                                              http::Response answer);
  awaitable<std::shared_ptr<Worker>> find_again(const Asked& asked, const Worker& worker);
  awaitable<void> pass_created(http::Exchange& exchange, http::Relay::Passage& passage,
                               http::Response head, const Worker& worker);

  // ---- what it answers itself: overview.cpp ----
  bool answers_itself(const http::Request& request) const;
  awaitable<http::Response> answer(http::Exchange& exchange);
  http::Response health() const;
  http::Response workers() const;
  http::Response metrics() const;
  awaitable<http::Response> check_question(const http::Request& request);
  awaitable<http::Response> sessions(http::Exchange& exchange);

  Fleet& fleet_;
  http::Relay relay_;
  Registry registry_;
  Counter& requests_;
  Counter& unanswered_;
};

}  // namespace tb::cluster

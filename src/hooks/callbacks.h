// SPDX-License-Identifier: Apache-2.0
// The ends of processes that asked for a callback: from the process to the queue, whatever dies on
// the way. That somebody waits for it is written down when the process starts; its end when it
// ends, found by the next server if there was none at that time.
#pragma once

#include <boost/json.hpp>
#include <functional>
#include <string>
#include <unordered_set>

#include "hooks/deliveries.h"
#include "session/notifier.h"

namespace tb::hooks {

class Callbacks : public session::Notifier {
 public:
  // A process as the API shows it.
  using Render = std::function<boost::json::object(const sandbox::Process&)>;
  Callbacks(asio::any_io_executor executor, Deliveries& deliveries, Render render);

  awaitable<void> expect(std::shared_ptr<session::Session> session,
                         std::shared_ptr<sandbox::Sandbox> sandbox,
                         std::shared_ptr<sandbox::Process> process) override;
  // All sandboxes of an earlier server are known: of the processes that were expected, those that
  // are in none of them are lost.
  awaitable<void> settle();
  awaitable<void> close();

 private:
  awaitable<void> watch(Delivery delivery, std::weak_ptr<sandbox::Sandbox> sandbox,
                        std::shared_ptr<sandbox::Process> process);

  asio::any_io_executor executor_;
  Deliveries& deliveries_;
  Render render_;
  std::unordered_set<std::string> watched_;
  TaskGroup tasks_;
};

// The same for the same process, whoever asks, and for no other one: process ids begin anew when a
// session's sandbox does, so the time of its start belongs to it.
std::string delivery_id(const std::string& session, const sandbox::Process& process);

}  // namespace tb::hooks

// SPDX-License-Identifier: Apache-2.0
// Sessions that go from worker to worker while both are well: a worker that is drained sends away
// what is idle. docs/cluster.md says why a thread has one sandbox all the time.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "base/async.h"
#include "cluster/membership.h"
#include "net/client.h"
#include "session/moves.h"
#include "session/sessions.h"

namespace tb::cluster {

class Mover final : public session::Moves {
 public:
  struct Parts {
    session::Sessions& sessions;
    Membership& membership;
    std::string secret;
    // Ends what runs in a sandbox; its files stay.
    std::function<awaitable<void>(std::string session)> stop;
  };
  Mover(asio::any_io_executor executor, Parts parts);
  awaitable<void> close();

  void drain() override;
  void stop_draining() override;
  State state() const override;
  awaitable<void> expect(std::string session, std::string label, std::string from) override;
  awaitable<void> arrive(std::string session, std::string worker, std::string epoch) override;
  std::shared_ptr<session::Session> leaving(const std::string& session) const override;

 private:
  using Held = std::shared_ptr<session::Session>;
  awaitable<void> empty_out();
  awaitable<void> move(Held session);
  awaitable<void> send(Held session, Membership::Peer to);
  awaitable<void> settle(Held session, Membership::Peer to);
  awaitable<void> tell(std::string url, std::string body);
  awaitable<void> fetch_files(Held session, std::string from);
  awaitable<void> drop_later(std::string session);

  asio::any_io_executor executor_;
  Parts parts_;
  net::Client client_;
  std::map<std::string, Held> leaving_;
  std::map<std::string, Held> expected_;
  std::size_t moved_ = 0;
  std::string problem_;
  bool emptying_ = false;
  Signal change_;
  TaskGroup tasks_;
};

}  // namespace tb::cluster

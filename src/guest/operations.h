// SPDX-License-Identifier: Apache-2.0
// What the file helper does on trees (operations_wire.h), with the tenant's rights and memory.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "guest/names.h"
#include "guest/operations_wire.h"

namespace tb::guest::files {

struct Workplace {
  int root;       // the workspace
  int socket;     // to the server
  File& created;  // the file of Message::create that waits for its name
};

// The way back to the server: answers, and a sign of life from what takes long.
class Teller {
 public:
  explicit Teller(int socket) : socket_(socket) {}
  // False: nobody listens any more.
  bool send(const OperationAnswer& answer, int fd = -1);
  // Sends items in packets of a good size.
  bool add(Item item);
  bool flush();
  // Says that it is still working, if it has said nothing for a second.
  bool tick();

 private:
  int socket_;
  OperationAnswer batch_;
  std::size_t batched_ = 0;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

OperationAnswer refuse_operation(Reason reason, int number = 0, std::string text = {});
OperationAnswer refuse_by_errno();

// Does what the packet asks and answers. False: the socket is of no use any more.
bool obey_operation(std::string_view packet, const Workplace& place);

// ---- the larger ones, in files of their own ----
bool walk_names(const OperationRequest& request, const Workplace& place);
bool search_lines(const OperationRequest& request, const Workplace& place);
bool send_archive(const OperationRequest& request, const Workplace& place);
bool receive_archive(const OperationRequest& request, const Workplace& place);

}  // namespace tb::guest::files

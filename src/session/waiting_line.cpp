// SPDX-License-Identifier: Apache-2.0
#include "session/waiting_line.h"

#include <algorithm>

namespace tb::session {

void WaitingLine::forget_if_empty(const std::string& tenant) {
  const auto found = queues_.find(tenant);
  if (found == queues_.end() || !found->second.empty()) return;
  std::erase(turns_, tenant);
  queues_.erase(found);
}

// Of the tenant with the most, if that is another one that has more, the last goes.
bool WaitingLine::make_room(const std::string& tenant) {
  const auto longest = std::max_element(
      queues_.begin(), queues_.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  if (longest == queues_.end()) return false;
  const auto own = queues_.find(tenant);
  const std::size_t has = own == queues_.end() ? 0 : own->second.size();
  if (longest->second.size() <= has + 1) return false;
  const std::shared_ptr<Ticket> last = longest->second.back();
  leave(last);
  last->refused = true;
  last->woken.notify_all();
  return true;
}

std::shared_ptr<WaitingLine::Ticket> WaitingLine::join(const std::string& tenant) {
  if (size_ >= most_ && !make_room(tenant)) return nullptr;
  auto ticket = std::make_shared<Ticket>(executor_, tenant);
  Queue& queue = queues_[tenant];
  if (queue.empty()) turns_.push_back(tenant);
  queue.push_back(ticket);
  ++size_;
  return ticket;
}

void WaitingLine::leave(const std::shared_ptr<Ticket>& ticket) {
  const auto found = queues_.find(ticket->tenant);
  if (found == queues_.end()) return;
  size_ -= std::erase(found->second, ticket);
  forget_if_empty(ticket->tenant);
}

bool WaitingLine::grant() {
  if (turns_.empty()) return false;
  const std::string tenant = turns_.front();
  Queue& queue = queues_[tenant];
  const std::shared_ptr<Ticket> next = queue.front();
  queue.pop_front();
  --size_;
  turns_.pop_front();
  turns_.push_back(tenant);
  forget_if_empty(tenant);
  next->granted = true;
  next->woken.notify_all();
  return true;
}

}  // namespace tb::session

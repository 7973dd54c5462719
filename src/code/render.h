// SPDX-License-Identifier: Apache-2.0
// What is said of contexts and calls, as JSON: the same over HTTP and in a library.
#pragma once

#include <boost/json.hpp>
#include <string>

#include "code/contexts.h"

namespace tb::code {

// How a call ended, beside what it printed and showed.
boost::json::object render_outcome(const Context& context, const Outcome& outcome);
boost::json::object render_context(const Context& context);
// As a line of a stream; `type` is among its keys. Empty: a sign of life.
boost::json::object render_event(Event& event);

// Everything that a call gave, for an answer in one piece.
class Collector {
 public:
  awaitable<void> take(Event& event);
  boost::json::object render(const std::string& session, boost::json::object outcome);

 private:
  void add(boost::json::object result);

  std::string out_, err_;
  boost::json::value text_ = nullptr;
  boost::json::array results_;
};

}  // namespace tb::code

// SPDX-License-Identifier: Apache-2.0
// JSON Schema, as much of it as parameters of tools need; docs/registry.md has the list. A keyword
// that is not checked here is refused when the schema is read: nobody should count on it.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <vector>

namespace tb::registry {

class Schema {
 public:
  struct Problem {
    std::string pointer;  // where: a JSON pointer
    std::string what;
  };

  // Accepts everything.
  Schema() : document_(boost::json::object{}) {}
  // What is wrong with `document` is added to `problems`; if anything is, it must not be used.
  Schema(boost::json::value document, std::vector<Problem>& problems);

  // Fills in defaults, and returns what is wrong with the value; nothing: it fits. Takes a bounded
  // number of steps, whatever schema and value are.
  std::vector<Problem> check(boost::json::value& value) const;

  const boost::json::value& document() const { return document_; }

 private:
  static std::vector<Problem> check_part(const boost::json::value& root,
                                         const boost::json::value& part, boost::json::value& value);

  boost::json::value document_;
};

}  // namespace tb::registry

// SPDX-License-Identifier: Apache-2.0
// Reads lines of JSON {"cmd": …, "policy": …} and prints for each a line {"ok", "message",
// "pattern", "offset", "line", "column", "words", "us"}: the policy for tests in other languages.
#include <boost/json.hpp>
#include <ctime>
#include <iostream>
#include <string>

#include "policy/policy.h"
#include "policy/walker.h"

namespace json = boost::json;

int main() {
  const tb::policy::Policies policies = tb::policy::Policies::builtin();
  for (std::string line; std::getline(std::cin, line);) {
    const json::object request = json::parse(line).as_object();
    const std::string command{request.at("cmd").as_string()};
    const auto* policy = policies.find(std::string{request.at("policy").as_string()});
    if (policy == nullptr) return 1;
    const auto begin = std::clock();
    const auto refusal = policy->check(command);
    const auto end = std::clock();
    json::object answer{{"ok", !refusal.has_value()}};
    answer["us"] = static_cast<std::int64_t>(end - begin) * 1'000'000 / CLOCKS_PER_SEC;  // CPU
    if (refusal) {
      answer["message"] = refusal->message;
      if (refusal->pattern) answer["pattern"] = *refusal->pattern;
      answer["offset"] = refusal->at.offset;
      answer["line"] = refusal->at.line;
      answer["column"] = refusal->at.column;
    }
    json::array& words = answer["words"].emplace_array();
    for (const std::string& word : tb::policy::examine(policy->rules(), command).words) {
      words.emplace_back(word);
    }
    std::cout << json::serialize(answer) << std::endl;
  }
}

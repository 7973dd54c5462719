// SPDX-License-Identifier: Apache-2.0
// Feeds bytes to the command policy. Beyond not crashing: a refusal stands inside of the text and
// has words; what is accepted, with a forbidden command after it, is refused (no text may swallow
// what follows it); and in braces or in a subshell it lists the same words.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "policy/policy.h"
#include "policy/walker.h"

namespace {

using tb::policy::examine;
using tb::policy::Policy;

const Policy& policy() {
  static const Policy strict = tb::policy::parse_policy(
      "name: strict\n"
      "commands: [ls, cat, echo, env, xargs, find, test, '[', printf, sed, awk, timeout, sort]\n"
      "builtins: [':', read, eval, exec, command, builtin, trap, set, shopt, declare, local,\n"
      "           export, unset, wait, getopts, mapfile, let, shift]\n"
      "forbidden: [rm]\n",
      "fuzz");
  return strict;
}

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text{reinterpret_cast<const char*>(data), size};
  const auto refusal = policy().check(text);
  if (refusal) {
    require(!refusal->message.empty() && refusal->at.offset <= size);
    require(refusal->at.line >= 1 && refusal->at.column >= 1);
    return 0;
  }
  require(policy().check(text + "\nrm x").has_value());
  require(policy().check(text + "\n{ rm x; }").has_value());
  require(policy().check("rm x; " + text).has_value());
  const auto plain = examine(policy().rules(), text).words;
  const auto inside = examine(policy().rules(), "{ " + text + "\n}");
  // In braces nothing changes but the depth, which may become too much.
  if (!inside.refusal) require(inside.words == plain);
  const auto subshell = examine(policy().rules(), "( " + text + "\n)");
  if (!subshell.refusal) require(subshell.words == plain);
  return 0;
}

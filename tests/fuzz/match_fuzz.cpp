// SPDX-License-Identifier: Apache-2.0
// Any pattern on any text: bounded, the same in pieces as in one, and globs agree with themselves.
// The first byte chooses, the next says where the pattern ends.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "match/glob.h"
#include "match/regex.h"

namespace {

using tb::match::Glob;
using tb::match::Regex;

void require(bool condition) {
  if (!condition) std::abort();
}

void try_regex(std::string_view pattern, std::string_view line, bool ignore_case, bool literal) {
  Regex regex;
  std::string error;
  if (!Regex::compile(pattern, {ignore_case, literal}, regex, error)) {
    require(!error.empty() && !(literal && pattern.size() <= Regex::kMaxPattern / 8));
    return;
  }
  const bool whole = regex.matches(line);
  regex.restart();
  bool found = false;
  for (const char& c : line) found = regex.feed({&c, 1}) || found;
  require((found || regex.finish()) == whole);
  if (literal && !ignore_case) require(whole == (line.find(pattern) != std::string_view::npos));
}

void try_glob(std::string_view pattern, std::string_view path) {
  Glob glob;
  std::string error;
  if (!Glob::compile(pattern, glob, error)) return require(!error.empty());
  const bool matched = glob.matches(path);
  // A walk that leaves out what is hopeless finds the same.
  Glob::State state = glob.start();
  bool pruned = false;
  while (!path.empty()) {
    pruned = pruned || glob.hopeless(state);
    const std::size_t slash = std::min(path.find('/'), path.size());
    state = glob.enter(state, path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  require(!(pruned && matched));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view all{reinterpret_cast<const char*>(data) + 2, size - 2};
  const std::size_t cut = std::min<std::size_t>(data[1], all.size());
  const std::string_view pattern = all.substr(0, cut);
  const std::string_view text = all.substr(cut).substr(0, 4096);
  if (data[0] & 1) {
    try_glob(pattern, text);
  } else {
    try_regex(pattern, text, (data[0] & 2) != 0, (data[0] & 4) != 0);
  }
  return 0;
}

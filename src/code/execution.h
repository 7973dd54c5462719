// SPDX-License-Identifier: Apache-2.0
// Code that runs in a context, and what becomes of it.
#pragma once

#include <boost/json.hpp>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/async.h"
#include "base/units.h"
#include "code/languages.h"

namespace tb::code {

using Variables = std::vector<std::pair<std::string, std::string>>;

struct Cell {
  std::string text;
  Variables env;  // for this call alone
  Milliseconds timeout = 30s;
};

// What is kept of one call.
struct CellLimits {
  Bytes output = 1_MiB;   // of each stream: its head and its tail
  Bytes results = 8_MiB;  // characters of them all
};

// As it happens.
struct Event {
  enum class Kind { begun, out, err, result, silence };
  Kind kind = Kind::silence;
  unsigned count = 0;          // begun: the number of the call in its context
  std::string text;            // out, err: whole characters, as far as they are any
  boost::json::object result;  // text, html, png, …, is_main_result
};

// What it throws interrupts the code.
using Take = std::function<awaitable<void>(Event& event)>;

// As the language tells it.
struct Failure {
  std::string name;
  std::string value;
  std::string traceback;
};

struct Outcome {
  unsigned count = 0;
  std::optional<Failure> error;
  bool timed_out = false;
  bool interrupted = false;      // somebody asked for that
  bool restarted = false;        // what earlier calls left was gone when this one began
  bool state_lost = false;       // what this one left is gone
  unsigned results_cut = 0;      // results of which something is missing
  std::optional<int> exit_code;  // of bash
  std::vector<std::string> files =
      {};  // of the workspace that it wrote; the first of them, if many
  Milliseconds took{0};
};

std::string in_seconds(Milliseconds time);

// Text in pieces that end between characters.
class WholeCharacters {
 public:
  std::string add(std::string_view bytes);
  // What is left, characters or not.
  std::string rest() { return std::exchange(half_, {}); }

 private:
  std::string half_;
};

}  // namespace tb::code

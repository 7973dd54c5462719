// SPDX-License-Identifier: Apache-2.0
// The operations by their names, as work for the engine and an answer for Python.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "convert.h"
#include "embed/engine.h"

namespace tb::python {

struct Job {
  embed::Operation::Work work;
  std::function<Ref()> answer;              // once the work is done; needs the GIL
  std::shared_ptr<embed::Stopper> stopper;  // of a command: how it is ended early
};

// Reads the arguments. Throws Raised.
Job make_job(std::string_view name, Arguments arguments);

}  // namespace tb::python

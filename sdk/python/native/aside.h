// SPDX-License-Identifier: Apache-2.0
// What is done while other threads of Python run.
#pragma once

#include <cxxabi.h>
#include <unistd.h>

#include "convert.h"

namespace tb::python {

// A daemon thread that comes back when the interpreter is ending is ended by it (before
// Python 3.14), by unwinding the frames below: ours own objects of Python, and would let go of them
// while it is being taken down. So the thread stays here, until the process ends.
inline void come_back(PyThreadState* state) {
  try {
    PyEval_RestoreThread(state);
  } catch (const abi::__forced_unwind&) {
    for (;;) ::pause();
  }
}

// Without the interpreter's lock: `work` must not touch anything of Python.
template <class Work>
auto aside(Work work) {
  struct Back {
    PyThreadState* state = PyEval_SaveThread();
    ~Back() { come_back(state); }
  };
  const Back back;
  return work();
}

}  // namespace tb::python

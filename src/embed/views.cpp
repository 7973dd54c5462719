// SPDX-License-Identifier: Apache-2.0
#include "embed/views.h"

namespace tb::embed {

ProcessView view_of(const sandbox::Process& process) {
  return {process.id(),
          process.info(),
          process.input_open(),
          process.output_size(sandbox::Stream::out),
          process.output_size(sandbox::Stream::err),
          process.exit()};
}

Executed executed_of(const sandbox::Process& process) {
  Executed executed;
  executed.exit = process.exit().value();
  executed.process = process.id();
  executed.out = process.captured(sandbox::Stream::out);
  executed.err = process.captured(sandbox::Stream::err);
  // One stream alone is both in their order.
  executed.all = executed.err.total == 0   ? executed.out
                 : executed.out.total == 0 ? executed.err
                                           : process.captured(sandbox::Stream::all);
  return executed;
}

}  // namespace tb::embed

// SPDX-License-Identifier: Apache-2.0
// Output that comes in messages, kept like that of this machine's own processes.
#pragma once

#include <string>
#include <string_view>

#include "box/output.h"

namespace tb::e2b {

class ToldOutput {
 public:
  // `path` without ending; what is there already is gone on with.
  ToldOutput(const std::string& path, const sandbox::OutputLimits& limits)
      : output_(path, limits) {}

  // More will come.
  void open() { output_.open_told(false); }
  void append(sandbox::Stream which, std::string_view bytes) {
    if (!bytes.empty()) output_.append(which, output_.total(which), bytes);
  }
  // No more will come.
  void end() { output_.abandon(); }
  const box::Output& kept() const { return output_; }
  void close_files() { output_.close_files(); }

 private:
  box::Output output_;
};

}  // namespace tb::e2b

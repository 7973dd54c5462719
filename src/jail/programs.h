// SPDX-License-Identifier: Apache-2.0
// From names of programs to the files that a confined sandbox can execute and read.
#pragma once

#include <string>
#include <vector>

#include "os/fd.h"

namespace tb::jail {

struct Confinement {
  std::vector<std::string> read;  // files, and directories with all below: data and libraries
  std::vector<std::string> run;   // files: the programs, the shell and their loaders
};

// Looks the names up as a process in the image would, links and alternatives followed to the file
// itself. What is not there is left out, and so is a program that is many in one (busybox) unless
// that one is listed by its own name.
Confinement confine_to(const os::Fd& image, const std::vector<std::string>& programs);

// Programs among the libraries that a confined sandbox can read: paths in the image. The dynamic
// loader could start them.
std::vector<std::string> find_helpers(const os::Fd& image);

}  // namespace tb::jail

// SPDX-License-Identifier: Apache-2.0
// Files and shells as tuples; _local_values.py reads them.
#include "convert.h"

namespace tb::python {
namespace {

Ref unsigned_number(std::uint64_t value) { return number(static_cast<std::int64_t>(value)); }

Ref file_to_python(const std::string& path, const sandbox::FileInfo& info) {
  return pack(text(path), number(static_cast<std::int64_t>(info.type)), number(info.mode),
              unsigned_number(info.size.count), seconds(info.modified), text(info.version),
              text(info.target));
}

Ref files_to_python(const sandbox::Listing& listing) {
  return list(listing.files,
              [](const sandbox::FileInfo& info) { return file_to_python(info.name, info); });
}

}  // namespace

Ref numbers(const std::vector<std::uint64_t>& values) { return list(values, unsigned_number); }

Ref to_python(const embed::FileView& file) { return file_to_python(file.path, file.info); }

Ref to_python(const embed::Walked& walked) {
  return pack(files_to_python(walked.listing), walked.cursor ? bytes(*walked.cursor) : none(),
              boolean(walked.listing.complete));
}

Ref to_python(const sandbox::FoundLines& found) {
  const auto line = [](const sandbox::FoundLine& one) {
    return pack(text(one.path), unsigned_number(one.line), text(one.text));
  };
  return pack(list(found.lines, line), unsigned_number(found.files), boolean(found.complete));
}

Ref to_python(const sandbox::Lines& lines) {
  return pack(text(lines.text), unsigned_number(lines.first), unsigned_number(lines.count),
              boolean(lines.more), optional_number(lines.total), boolean(lines.cut));
}

Ref to_python(const embed::EditedView& edited) {
  return pack(to_python(edited.file), unsigned_number(edited.replaced), numbers(edited.lines));
}

Ref to_python(const sandbox::Unpacked& unpacked) {
  return pack(unsigned_number(unpacked.files), unsigned_number(unpacked.bytes.count));
}

Ref to_python(const embed::ShellView& view) {
  constexpr const char* kStates[] = {"waiting", "running", "dead"};
  const bool busy = view.state == sandbox::Shell::State::running && view.run != 0;
  return pack(number(view.id), text(kStates[static_cast<int>(view.state)]), text(view.cwd),
              text(view.info.tag), number(view.generation), busy ? number(view.run) : none(),
              unsigned_number(view.waiting), seconds(view.info.started),
              view.info.pid == 0 ? none() : number(view.info.pid));
}

Ref to_python(const embed::ShellRan& ran) {
  return pack(to_python(ran.executed), text(ran.facts.cwd), number(ran.facts.generation),
              boolean(ran.facts.exited), boolean(ran.facts.respawned), boolean(ran.facts.restored));
}

}  // namespace tb::python

// SPDX-License-Identifier: Apache-2.0
#include "convert.h"

namespace tb::python {

Ref own(PyObject* object) {
  if (!object) throw Raised{};
  return Ref{object};
}

Ref none() { return Ref{Py_NewRef(Py_None)}; }
Ref boolean(bool value) { return own(PyBool_FromLong(value)); }
Ref number(std::int64_t value) { return own(PyLong_FromLongLong(value)); }

Ref text(std::string_view utf8) {
  return own(PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "replace"));
}

Ref bytes(std::string_view value) {
  return own(PyBytes_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size())));
}

Ref seconds(std::chrono::system_clock::time_point time) {
  return own(PyFloat_FromDouble(std::chrono::duration<double>(time.time_since_epoch()).count()));
}

namespace {

std::int64_t milliseconds(std::chrono::microseconds time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

// In the order of Ended's fields.
Ref exit_to_python(const sandbox::Exit& exit) {
  return pack(number(exit.code), text(sandbox::name_of(exit.cause)),
              boolean(exit.cause == sandbox::Cause::timeout),
              exit.signal == 0 ? none() : number(exit.signal),
              list(exit.limits_hit, [](const std::string& name) { return text(name); }),
              number(milliseconds(exit.wall)), number(milliseconds(exit.cpu)),
              number(static_cast<std::int64_t>(exit.peak_memory.count)));
}

Ref load_to_python(const sandbox::Load& load) {
  std::optional<std::uint64_t> memory;
  std::optional<std::int64_t> cpu;
  if (load.memory) memory = load.memory->count;
  if (load.cpu) cpu = load.cpu->count();
  return pack(optional_number(memory), optional_number(cpu), optional_number(load.processes));
}

}  // namespace

Ref to_python(const embed::SessionView& view) {
  return pack(text(view.id), text(view.thread), text(view.status), text(view.policy),
              seconds(view.created), seconds(view.last_activity), seconds(view.expires));
}

Ref to_python(const embed::FoundView& found) {
  return pack(to_python(found.session), optional_number(found.files));
}

Ref to_python(const embed::ProcessView& view) {
  const sandbox::ProcessInfo& info = view.info;
  return pack(number(view.id), text(info.command), text(info.cwd), text(info.tag),
              boolean(info.terminal), info.pid == 0 ? none() : number(info.pid),
              seconds(info.started), boolean(view.input_open),
              number(static_cast<std::int64_t>(view.out_bytes)),
              number(static_cast<std::int64_t>(view.err_bytes)),
              view.exit ? exit_to_python(*view.exit) : none());
}

Ref to_python(const embed::Executed& executed) {
  return pack(number(executed.process), text(executed.out.text), text(executed.err.text),
              text(executed.all.text), exit_to_python(executed.exit),
              boolean(executed.out.truncated || executed.err.truncated),
              number(static_cast<std::int64_t>(executed.out.total)),
              number(static_cast<std::int64_t>(executed.err.total)));
}

Ref to_python(const embed::Page& page) {
  return pack(number(static_cast<std::int64_t>(page.offset)), bytes(page.bytes),
              number(static_cast<std::int64_t>(page.total)), boolean(page.more),
              number(static_cast<std::int64_t>(page.dropped)), boolean(page.running));
}

Ref to_python(const embed::Pieces& pieces) {
  return pack(to_python(pieces.out), to_python(pieces.err), boolean(pieces.ended),
              to_python(pieces.process));
}

Ref to_python(const embed::StatusView& status) {
  return pack(to_python(status.session), boolean(status.awake),
              number(static_cast<std::int64_t>(status.running)), load_to_python(status.before),
              load_to_python(status.load), number(status.between.count()));
}

Ref to_python(const embed::HealthView& health) {
  const auto row = [](const embed::HealthView::Row& barrier) {
    return pack(text(barrier.name), text(barrier.state), text(barrier.detail));
  };
  return pack(number(static_cast<std::int64_t>(health.ready)),
              number(static_cast<std::int64_t>(health.used)),
              number(static_cast<std::int64_t>(health.sessions)), number(health.uptime.count()),
              list(health.isolation, row));
}

Ref to_python(const sandbox::FileInfo& info) {
  return pack(text(info.name), number(static_cast<std::int64_t>(info.type)), number(info.mode),
              number(static_cast<std::int64_t>(info.size.count)), seconds(info.modified));
}

Ref to_python(const sandbox::Listing& listing) {
  return pack(list(listing.files, [](const sandbox::FileInfo& info) { return to_python(info); }),
              boolean(listing.complete));
}

Ref to_python(const embed::Opened& opened) {
  return pack(number(static_cast<std::int64_t>(opened.handle)), to_python(opened.info));
}

Ref to_python(const policy::Refusal& refusal, const std::string& command) {
  return pack(text(command), refusal.pattern ? text(*refusal.pattern) : none(),
              number(static_cast<std::int64_t>(refusal.at.offset)));
}

}  // namespace tb::python

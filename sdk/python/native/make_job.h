// SPDX-License-Identifier: Apache-2.0
// How an operation of src/embed becomes a job, and the tables of those that have files of their
// own.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "jobs.h"

namespace tb::python {

using embed::CoreRef;

struct JobRow {
  std::string_view name;
  Job (*make)(Arguments&);
};
std::span<const JobRow> file_jobs();
std::span<const JobRow> shell_jobs();
std::span<const JobRow> code_jobs();

// The number of a process or a shell.
std::uint32_t process_number(Arguments& in);

template <class T>
struct ValueOf;
template <class T>
struct ValueOf<awaitable<T>> {
  using Type = T;
};

inline Ref to_answer(const std::string& value) { return bytes(value); }
inline Ref to_answer(std::uint64_t value) { return number(static_cast<std::int64_t>(value)); }
inline Ref to_answer(const std::optional<embed::FoundView>& found) {
  return found ? to_python(*found) : none();
}
template <class View>
Ref to_answer(const std::vector<View>& views) {
  return list(views, [](const View& view) { return to_python(view); });
}
template <class T>
Ref to_answer(const T& value) {
  return to_python(value);
}

// `make(core)` is the operation with all its arguments.
template <class Make>
Job job(Make make) {
  using T = typename ValueOf<std::invoke_result_t<Make&, CoreRef>>::Type;
  Job result;
  if constexpr (std::is_void_v<T>) {
    result.work = std::move(make);
    result.answer = [] { return none(); };
  } else {
    auto value = std::make_shared<std::optional<T>>();
    result.work = [value, make = std::move(make)](CoreRef core) mutable -> awaitable<void> {
      T made = co_await make(std::move(core));
      value->emplace(std::move(made));
    };
    result.answer = [value] { return to_answer(**value); };
  }
  return result;
}

}  // namespace tb::python

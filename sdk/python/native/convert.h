// SPDX-License-Identifier: Apache-2.0
// Values to Python and back. All of it needs the GIL; failures are a Python error that is set, told
// by Raised.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <exception>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "embed/operations.h"

namespace tb::python {

// A Python error is set.
class Raised : public std::exception {};

// A reference that is given back.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* object) : object_(object) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Throws Raised for a null, which is how Python's functions fail.
Ref own(PyObject* object);

// ---- to Python ----
Ref none();
Ref boolean(bool value);
Ref number(std::int64_t value);
Ref text(std::string_view utf8);  // what is no UTF-8 becomes U+FFFD
Ref bytes(std::string_view value);
Ref tuple(std::initializer_list<PyObject*> borrowed);
Ref seconds(std::chrono::system_clock::time_point time);  // since 1970, a float
// A tuple of what was just made.
template <class... Refs>
Ref pack(Refs... refs) {
  Ref result = own(PyTuple_New(sizeof...(refs)));
  Py_ssize_t at = 0;
  (PyTuple_SetItem(result.get(), at++, refs.release()), ...);
  return result;
}
template <class T>
Ref optional_number(const std::optional<T>& value) {
  return value ? number(static_cast<std::int64_t>(*value)) : none();
}
template <class T, class Make>
Ref list(const std::vector<T>& values, Make make) {
  Ref result = own(PyList_New(static_cast<Py_ssize_t>(values.size())));
  for (std::size_t i = 0; i < values.size(); ++i) {
    PyList_SetItem(result.get(), static_cast<Py_ssize_t>(i), make(values[i]).release());
  }
  return result;
}
Ref numbers(const std::vector<std::uint64_t>& values);

Ref to_python(const embed::SessionView& view);
Ref to_python(const embed::FoundView& found);
Ref to_python(const embed::ProcessView& view);
Ref to_python(const embed::Executed& executed);
Ref to_python(const embed::Page& page);
Ref to_python(const embed::Pieces& pieces);
Ref to_python(const embed::StatusView& status);
Ref to_python(const embed::HealthView& health);
Ref to_python(const sandbox::FileInfo& info);
Ref to_python(const sandbox::Listing& listing);
Ref to_python(const embed::Opened& opened);
Ref to_python(const embed::FileView& file);
Ref to_python(const embed::Walked& walked);
Ref to_python(const sandbox::FoundLines& found);
Ref to_python(const sandbox::Lines& lines);
Ref to_python(const embed::EditedView& edited);
Ref to_python(const sandbox::Unpacked& unpacked);
Ref to_python(const embed::ShellView& view);
Ref to_python(const embed::ShellRan& ran);
Ref to_python(const policy::Refusal& refusal, const std::string& command);

// Sets the Python error for what was thrown: EngineError(kind, message, detail).
void raise(std::exception_ptr failure, PyObject* error_type);

// ---- from Python ----
// The arguments of an operation, in order.
class Arguments {
 public:
  explicit Arguments(PyObject* tuple) : tuple_(tuple) {}
  std::string text();
  std::string data();  // bytes
  std::optional<std::string> optional_text();
  std::int64_t number();
  std::optional<std::int64_t> optional_number();
  std::uint64_t count();  // not negative
  bool flag();
  std::optional<Milliseconds> timeout();  // None: no end
  std::vector<std::string> words();
  std::vector<std::pair<std::string, std::string>> pairs();  // of a dict
  std::optional<sandbox::Terminal> terminal();               // (rows, columns) or None
  // Throws Raised when there are others left.
  void end();

 private:
  PyObject* next();
  PyObject* tuple_;
  Py_ssize_t at_ = 0;
};

}  // namespace tb::python

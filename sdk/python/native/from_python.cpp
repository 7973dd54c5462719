// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "convert.h"

namespace tb::python {
namespace {

std::string utf8(PyObject* object) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, &size) : nullptr;
  if (data) return {data, static_cast<std::size_t>(size)};
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "expected a str");
  throw Raised{};
}

std::int64_t integer(PyObject* object) {
  const long long value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred()) throw Raised{};
  return value;
}

}  // namespace

PyObject* Arguments::next() {
  PyObject* item = PyTuple_GetItem(tuple_, at_++);
  if (item) return item;
  PyErr_SetString(PyExc_TypeError, "the operation needs more arguments");
  throw Raised{};
}

void Arguments::end() {
  if (at_ == PyTuple_Size(tuple_)) return;
  PyErr_SetString(PyExc_TypeError, "the operation has fewer arguments");
  throw Raised{};
}

std::string Arguments::text() { return utf8(next()); }

std::optional<std::string> Arguments::optional_text() {
  PyObject* object = next();
  if (Py_IsNone(object)) return std::nullopt;
  return utf8(object);
}

std::string Arguments::data() {
  char* begin = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(next(), &begin, &size) != 0) throw Raised{};
  return {begin, static_cast<std::size_t>(size)};
}

std::int64_t Arguments::number() { return integer(next()); }

std::optional<std::int64_t> Arguments::optional_number() {
  PyObject* object = next();
  if (Py_IsNone(object)) return std::nullopt;
  return integer(object);
}

std::uint64_t Arguments::count() {
  const std::int64_t value = number();
  if (value >= 0) return static_cast<std::uint64_t>(value);
  PyErr_SetString(PyExc_ValueError, "must not be negative");
  throw Raised{};
}

bool Arguments::flag() {
  const int value = PyObject_IsTrue(next());
  if (value < 0) throw Raised{};
  return value == 1;
}

std::optional<Milliseconds> Arguments::timeout() {
  PyObject* object = next();
  if (Py_IsNone(object)) return std::nullopt;
  const double value = PyFloat_AsDouble(object);
  if (value == -1 && PyErr_Occurred()) throw Raised{};
  constexpr double kMost = 7 * 24 * 3600;
  if (!(value > 0) || value > kMost) {
    PyErr_SetString(PyExc_ValueError, "timeout must be more than 0 and at most a week of seconds");
    throw Raised{};
  }
  return Milliseconds{std::max<std::int64_t>(1, std::llround(value * 1000))};
}

std::vector<std::string> Arguments::words() {
  PyObject* object = next();
  std::vector<std::string> result;
  if (Py_IsNone(object)) return result;
  const Ref sequence = own(PySequence_Tuple(object));
  for (Py_ssize_t i = 0; i < PyTuple_Size(sequence.get()); ++i) {
    result.push_back(utf8(PyTuple_GetItem(sequence.get(), i)));
  }
  return result;
}

std::vector<std::pair<std::string, std::string>> Arguments::pairs() {
  PyObject* object = next();
  std::vector<std::pair<std::string, std::string>> result;
  if (Py_IsNone(object)) return result;
  const Ref items = own(PyMapping_Items(object));
  for (Py_ssize_t i = 0; i < PyList_Size(items.get()); ++i) {
    PyObject* pair = PyList_GetItem(items.get(), i);
    result.emplace_back(utf8(PyTuple_GetItem(pair, 0)), utf8(PyTuple_GetItem(pair, 1)));
  }
  return result;
}

std::optional<sandbox::Terminal> Arguments::terminal() {
  PyObject* object = next();
  if (Py_IsNone(object)) return std::nullopt;
  const Ref size = own(PySequence_Tuple(object));
  if (PyTuple_Size(size.get()) != 2) {
    PyErr_SetString(PyExc_ValueError, "a terminal has rows and columns");
    throw Raised{};
  }
  Arguments parts{size.get()};
  const std::uint64_t rows = parts.count();
  const std::uint64_t columns = parts.count();
  constexpr std::uint64_t kMost = 10000;
  if (rows < 1 || columns < 1 || rows > kMost || columns > kMost) {
    PyErr_SetString(PyExc_ValueError, "rows and columns must be from 1 to 10000");
    throw Raised{};
  }
  return sandbox::Terminal{static_cast<unsigned>(rows), static_cast<unsigned>(columns)};
}

}  // namespace tb::python

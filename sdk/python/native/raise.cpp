// SPDX-License-Identifier: Apache-2.0
#include <boost/system/system_error.hpp>

#include "base/error.h"
#include "convert.h"
#include "sandbox/writing.h"

namespace tb::python {
namespace {

struct Told {
  std::string kind;
  std::string message;
};

const char* name_of(sandbox::FileProblem problem) {
  using enum sandbox::FileProblem;
  switch (problem) {
    case not_found: return "file_not_found";
    case not_regular: return "file_not_regular";
    case outside: return "file_outside";
    case link: return "file_link";
    case blocked: return "file_blocked";
    case denied: return "file_denied";
    case full: return "file_full";
    case bad_name: return "file_bad_name";
    case exists: return "file_exists";
    case not_empty: return "file_not_empty";
    case too_large: return "file_too_large";
    case too_many: return "file_too_many";
    case bad_pattern: return "file_bad_pattern";
    case bad_archive: return "file_bad_archive";
    case changed: return "file_changed";
    case no_match: return "file_no_match";
    case ambiguous: return "file_ambiguous";
  }
  return "internal";
}

// With the limit, which the answers of a server have in fields of their own.
std::string in_words(const sandbox::LimitError& error) {
  const auto mebibytes = [](Bytes bytes) { return std::to_string(bytes.count >> 20) + " MiB"; };
  std::string text = error.what();
  switch (error.problem()) {
    case sandbox::FileProblem::too_large: return text + " of " + mebibytes(error.limits.file);
    case sandbox::FileProblem::full: return text + ": " + mebibytes(error.limits.workspace);
    case sandbox::FileProblem::too_many:
      return text + ": " + std::to_string(error.used.files) + " of " +
             std::to_string(error.limits.count);
    default: return text;
  }
}

Ref to_python(const sandbox::EditError& error) {
  return pack(number(static_cast<std::int64_t>(error.matches)), numbers(error.lines));
}

void set_error(PyObject* type, const Told& told, Ref detail) {
  const Ref arguments = pack(text(told.kind), text(told.message), std::move(detail));
  PyErr_SetObject(type, arguments.get());
}

}  // namespace

void raise(std::exception_ptr failure, PyObject* type) {
  try {
    std::rethrow_exception(failure);
  } catch (const Raised&) {
    // It is set already.
  } catch (const session::PolicyError& error) {
    set_error(type, {"policy", error.what()}, to_python(error.refusal(), error.command()));
  } catch (const sandbox::EditError& error) {
    set_error(type, {"edit", error.what()}, to_python(error));
  } catch (const sandbox::LimitError& error) {
    set_error(type, {name_of(error.problem()), in_words(error)}, none());
  } catch (const sandbox::FileError& error) {
    set_error(type, {name_of(error.problem()), error.what()}, none());
  } catch (const embed::NoProcess& error) {
    set_error(type, {"no_process", error.what()}, none());
  } catch (const embed::SetUpError& error) {
    set_error(type, {"set_up", error.what()}, none());
  } catch (const embed::LimitError& error) {
    set_error(type, {"limit", error.what()}, none());
  } catch (const Error& error) {
    set_error(type, {std::string{tb::name_of(error.code())}, error.what()}, none());
  } catch (const boost::system::system_error& error) {
    set_error(type, {"unavailable", "the engine was closed"}, none());
  } catch (const std::exception& error) {
    set_error(type, {"internal", error.what()}, none());
  }
}

}  // namespace tb::python

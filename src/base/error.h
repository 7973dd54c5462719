// SPDX-License-Identifier: Apache-2.0
// The one error type: a code that the API maps to a status, and words that say what was being done.
#pragma once

#include <cerrno>
#include <exception>
#include <string>
#include <string_view>

namespace tb {

// `limited`: what belongs to the caller has reached a bound of its own, and the caller can mend it.
// `exhausted`: there is no more of what all share.
enum class Code { invalid, not_found, conflict, limited, exhausted, unavailable, internal };

std::string_view name_of(Code code);

class Error : public std::exception {
 public:
  Error(Code code, std::string what) : code_(code), what_(std::move(what)) {}
  Code code() const { return code_; }
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  Code code_;
  std::string what_;
};

// A failed system call: remembers errno, so that a caller can treat one of them as expected.
class SystemError : public Error {
 public:
  SystemError(int number, const std::string& doing);
  int number() const { return number_; }

 private:
  int number_;
};

// Passes a system call's result through; throws SystemError "doing: reason" on -1.
template <class T>
T check(T result, std::string_view doing) {
  if (result == static_cast<T>(-1)) throw SystemError{errno, std::string{doing}};
  return result;
}

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace tb

// On in release too: a sandbox server that guesses is worse than one that restarts.
#define TB_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::tb::assertion_failed(#condition, __FILE__, __LINE__))

// SPDX-License-Identifier: Apache-2.0
#include "hooks/signing.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/id.h"
#include "base/sha256.h"
#include "os/fd.h"

namespace tb::hooks {
namespace {

constexpr std::string_view kPrefix = "whsec_";
constexpr std::size_t kLeast = 24;  // bytes, as the scheme recommends
constexpr std::size_t kMost = 64;
constexpr std::size_t kMade = 32;
constexpr std::int64_t kOverlap = 86400;  // seconds

}  // namespace

Secret Secret::parse(std::string_view text) {
  if (text.starts_with(kPrefix)) {
    auto key = from_base64(text.substr(kPrefix.size()));
    if (key && key->size() >= kLeast && key->size() <= kMost) return Secret{std::move(*key)};
  }
  throw Error{Code::invalid,
              "a secret is whsec_ and base64 of 24 to 64 bytes, as made by: echo "
              "whsec_$(head -c 32 /dev/urandom | base64)"};
}

Secret Secret::make() {
  std::string key(kMade, '\0');
  TB_ASSERT(::getrandom(key.data(), key.size(), 0) == static_cast<ssize_t>(key.size()));
  return Secret{std::move(key)};
}

std::string Secret::text() const { return std::string{kPrefix} + base64(key_); }

std::string Secret::sign(std::string_view id, std::int64_t timestamp, std::string_view body) const {
  std::string message{id};
  message += "." + std::to_string(timestamp) + ".";
  message += body;
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(message.data());
  TB_ASSERT(::HMAC(::EVP_sha256(), key_.data(), static_cast<int>(key_.size()), bytes,
                   message.size(), digest, &size) != nullptr);
  return "v1," + base64({reinterpret_cast<const char*>(digest), size});
}

Secrets Secrets::parse(std::string_view kept) {
  const std::size_t first = std::min(kept.find(' '), kept.size());
  Secrets all{Secret::parse(kept.substr(0, first))};
  const std::size_t second = kept.find(' ', first + 1);
  if (first == kept.size() || second == kept.npos) return all;
  all.before_ = Secret::parse(kept.substr(first + 1, second - first - 1));
  std::from_chars(kept.data() + second + 1, kept.data() + kept.size(), all.until_);
  return all;
}

std::string Secrets::text() const {
  if (!before_) return current_.text();
  return current_.text() + " " + before_->text() + " " + std::to_string(until_);
}

Secrets Secrets::changed_to(Secret next, std::int64_t now) const {
  Secrets all{std::move(next)};
  all.before_ = current_;
  all.until_ = now + kOverlap;
  return all;
}

std::string Secrets::sign(std::string_view id, std::int64_t timestamp,
                          std::string_view body) const {
  std::string value = current_.sign(id, timestamp, body);
  if (before_ && timestamp < until_) value += " " + before_->sign(id, timestamp, body);
  return value;
}

Secret read_secret(const std::string& path) {
  std::string text = os::read_file(path, 4096);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  try {
    return Secret::parse(text);
  } catch (const Error& error) {
    throw Error{Code::invalid, path + ": " + error.what()};
  }
}

Secret load_or_make_secret(const std::string& path, bool& made) {
  made = false;
  if (::access(path.c_str(), F_OK) != 0) {
    // Two may make one at once: the first that is there is it, and it is there whole.
    const std::string mine = path + "." + make_uuid();
    os::replace_file(mine, Secret::make().text() + "\n", 0600);
    const int result = ::link(mine.c_str(), path.c_str());
    const int number = errno;
    ::unlink(mine.c_str());
    if (result != 0 && number != EEXIST) throw SystemError{number, "link " + path};
    made = result == 0;
  }
  return read_secret(path);
}

}  // namespace tb::hooks

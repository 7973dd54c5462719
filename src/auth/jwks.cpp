// SPDX-License-Identifier: Apache-2.0
#include "auth/jwks.h"

#include <sys/stat.h>

#include "base/log.h"
#include "os/fd.h"

namespace tb::auth {
namespace {

constexpr Bytes kMost = 1_MiB;
constexpr auto kLook = 1s;
constexpr auto kOften = std::chrono::minutes{10};
constexpr auto kRetry = 15s;
constexpr auto kAgain = 30s;
constexpr auto kPatience = 10s;
// A token that names no key is tried with so many: a signature costs up to a tenth of a
// millisecond.
constexpr unsigned kMostTried = 4;

// Another number for another content: two files may well be written within a tick of the clock.
std::int64_t change_of(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return 0;
  std::uint64_t mark = static_cast<std::uint64_t>(info.st_mtim.tv_sec) * 1'000'000'000 +
                       static_cast<std::uint64_t>(info.st_mtim.tv_nsec);
  mark = mark * 31 + info.st_ino;
  mark = mark * 31 + static_cast<std::uint64_t>(info.st_size);
  return static_cast<std::int64_t>(mark);
}

void tell_problems(const KeySet& keys, const std::string& from) {
  for (const std::string& why : keys.problems()) {
    log(LogLevel::warning, "jwk_left_out", {{"from", from}, {"why", why}});
  }
}

}  // namespace

Jwks::Jwks(asio::any_io_executor executor, JwksSettings settings)
    : settings_(std::move(settings)),
      executor_(executor),
      done_(executor),
      tasks_(executor, [](const std::string& name, std::exception_ptr) {
        log(LogLevel::debug, "task_ended", {{"task", name}});
      }) {
  if (!settings_.secret.empty()) fixed_.add(VerifyKey::of_secret(settings_.secret));
  if (!settings_.file.empty()) read_file();
  if (settings_.url.empty()) return;
  net::Client::Settings client;
  client.authorities = settings_.authorities;
  client.authorities_setting = "JWT_CA_FILE";
  client_ = std::make_unique<net::Client>(executor, std::move(client));
}

void Jwks::read_file() {
  changed_ = change_of(settings_.file);
  try {
    of_file_ = KeySet::parse(os::read_file(settings_.file, kMost.count), true);
  } catch (const Error& error) {
    throw Error{Code::invalid, "JWT_JWKS_FILE=" + settings_.file + ": " + error.what()};
  }
  tell_problems(of_file_, settings_.file);
  ++generation_;
}

void Jwks::refresh(Clock::time_point now) {
  if (settings_.file.empty() || now - looked_ < kLook) return;
  looked_ = now;
  if (change_of(settings_.file) == changed_) return;
  try {
    read_file();
    log(LogLevel::info, "jwks_read", {{"from", settings_.file}});
  } catch (const Error& error) {
    log(LogLevel::error, "jwks_not_read", {{"error", error.what()}});
  }
}

bool Jwks::verify(const ParsedJwt& token) const {
  unsigned tried = 0;
  for (const KeySet* set : {&fixed_, &of_file_, &of_url_}) {
    for (const VerifyKey& key : set->keys()) {
      if (key.algorithm() != token.algorithm) continue;
      const bool named = !token.key_id.empty() && !key.id().empty();
      if (named && key.id() != token.key_id) continue;
      if (++tried > kMostTried) return false;
      if (key.verify(token.signed_text, token.signature)) return true;
    }
  }
  return false;
}

awaitable<bool> Jwks::look_again(const std::string& key_id) {
  if (!client_) co_return false;
  const unsigned before = generation_;
  if (!fetching_) {
    // Whoever makes up names of keys does not make us ask all the time.
    const bool soon = Clock::now() - fetched_ < kAgain;
    if (soon || (!key_id.empty() && of_url_.has(key_id))) co_return false;
    co_await read_url();
  } else {
    while (fetching_) co_await done_.wait();
  }
  co_return generation_ != before;
}

void Jwks::open() {
  if (client_) tasks_.spawn("read keys for tokens", [this] { return read_often(); });
}

awaitable<void> Jwks::read_often() {
  asio::steady_timer timer{executor_};
  for (;;) {
    co_await read_url();
    timer.expires_after(of_url_.keys().empty() ? std::chrono::seconds{kRetry}
                                               : std::chrono::seconds{kOften});
    co_await timer.async_wait(asio::use_awaitable);
  }
}

awaitable<std::string> Jwks::fetch() {
  net::Ask ask;
  ask.url = net::parse_url(settings_.url);
  ask.headers = {{"Accept", "application/json"}, {"User-Agent", "threadbox/" TB_VERSION}};
  ask.answer = kPatience;
  ask.repeatable = true;
  const auto answer = co_await client_->send(std::move(ask));
  if (answer->status() != 200) {
    throw Error{Code::unavailable, "the answer was " + std::to_string(answer->status())};
  }
  co_return co_await answer->read_all(kMost);
}

awaitable<void> Jwks::read_url() {
  if (fetching_) co_return;
  fetching_ = true;
  std::string problem;
  try {
    std::optional<std::string> text = co_await within(kPatience * 2, fetch());
    if (!text) throw Error{Code::unavailable, "it took too long"};
    if (*text != text_) {
      of_url_ = KeySet::parse(*text, false);
      text_ = std::move(*text);
      ++generation_;
      log(LogLevel::info, "jwks_read", {{"from", settings_.url}});
      tell_problems(of_url_, settings_.url);
    }
  } catch (const Error& error) {
    problem = error.what();
  }
  fetched_ = Clock::now();
  fetching_ = false;
  done_.notify_all();
  if (!problem.empty()) {
    log(LogLevel::error, "jwks_not_read", {{"from", settings_.url}, {"error", problem}});
  }
}

}  // namespace tb::auth

// SPDX-License-Identifier: Apache-2.0
#include "cli/tls.h"

#include <sys/stat.h>
#include <unistd.h>

#include <ctime>

#include "base/error.h"
#include "base/log.h"
#include "os/fd.h"

namespace tb::cli {
namespace {

constexpr std::size_t kMaxFile = 4 << 20;
constexpr auto kLook = 1s;
constexpr auto kSoon = std::chrono::hours{14 * 24};

std::string read_file_of(const char* setting, const std::string& path) {
  try {
    return os::read_file(path, kMaxFile);
  } catch (const Error& error) {
    throw Error{Code::invalid, setting + ("=" + path) + ": " + error.what()};
  }
}

net::Identity read_identity(const TlsConfig& config) {
  net::Identity identity;
  identity.certificate = read_file_of("TLS_CERT_FILE", config.certificate_file);
  identity.key = read_file_of("TLS_KEY_FILE", config.key_file);
  if (!config.client_ca_file.empty()) {
    identity.client_authorities = read_file_of("TLS_CLIENT_CA_FILE", config.client_ca_file);
    if (identity.client_authorities.empty()) {
      throw Error{Code::invalid, "TLS_CLIENT_CA_FILE=" + config.client_ca_file + ": is empty"};
    }
  }
  identity.client_required = config.client_required;
  return identity;
}

net::Identity first_identity(const TlsConfig& config) {
  try {
    net::Identity identity = read_identity(config);
    const net::ServerTls good{identity};
    return identity;
  } catch (const Error& error) {
    const std::string what = error.what();
    const std::string place = what.starts_with("TLS_") ? "" : "TLS_CERT_FILE, TLS_KEY_FILE: ";
    throw Error{Code::invalid, "wrong settings:\n  " + place + what};
  }
}

std::string day(std::chrono::system_clock::time_point when) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

void tell_failure(const std::string& task, std::exception_ptr) {
  log(LogLevel::debug, "task_ended", {{"task", task}});
}

}  // namespace

std::unique_ptr<PortTls> PortTls::read(const Config& config) {
  if (config.tls.certificate_file.empty()) return nullptr;
  return std::unique_ptr<PortTls>{new PortTls{config.tls}};
}

PortTls::PortTls(const TlsConfig& config)
    : config_(config), loaded_(look()), tls_(first_identity(config)) {}

PortTls::Stamps PortTls::look() const {
  Stamps stamps;
  const std::string* const paths[] = {&config_.certificate_file, &config_.key_file,
                                      &config_.client_ca_file};
  for (std::size_t i = 0; i < stamps.size(); ++i) {
    struct stat info{};
    if (paths[i]->empty() || ::stat(paths[i]->c_str(), &info) != 0) continue;
    stamps[i] = {info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
  }
  return stamps;
}

http::Secure PortTls::secure() {
  http::Secure secure;
  secure.wrap = [this](int fd, const std::string& peer) { return tls_.wrap(fd, peer); };
  if (config_.hsts.count() > 0) secure.hsts = "max-age=" + std::to_string(config_.hsts.count());
  return secure;
}

void PortTls::watch(asio::any_io_executor executor, session::Metrics* metrics) {
  tls_.on_handshake([metrics](const std::string& peer, const std::string& problem) {
    using session::Handshake;
    const Handshake result = problem.empty() ? Handshake::done : Handshake::failed;
    if (metrics) metrics->tls_handshakes[result].add();
    if (problem.empty()) return;
    log(LogLevel::debug, "tls_handshake_failed", {{"peer", peer}, {"error", problem}});
  });
  if (metrics) {
    metrics->tls_expires.read_by([this] {
      return static_cast<double>(std::chrono::system_clock::to_time_t(tls_.expires()));
    });
  }
  tell_loaded("tls_loaded");
  tell_rights();
  tasks_ = std::make_unique<TaskGroup>(executor, tell_failure);
  tasks_->spawn("look after certificates", [this, executor] { return follow(executor); });
}

// Better said at the start than on the day when the certificate has been renewed.
void PortTls::tell_rights() const {
  for (const std::string& path : {config_.certificate_file, config_.key_file}) {
    if (::access(path.c_str(), R_OK) == 0) continue;
    log(LogLevel::warning, "tls_file_unreadable",
        {{"path", path},
         {"uid", std::to_string(::geteuid())},
         {"error", "a renewed one can be read at a restart only: let this user read it"}});
  }
}

void PortTls::tell_loaded(const char* event) const {
  const auto left = tls_.expires() - std::chrono::system_clock::now();
  const LogLevel level = left < kSoon ? LogLevel::warning : LogLevel::info;
  log(level, event, {{"subject", tls_.subject()}, {"expires", day(tls_.expires())}});
}

void PortTls::reload() {
  loaded_ = look();
  try {
    tls_.change(read_identity(config_));
    tell_loaded("tls_reloaded");
  } catch (const Error& error) {
    log(LogLevel::error, "tls_not_reloaded",
        {{"error", error.what()}, {"expires", day(tls_.expires())}});
  }
}

// A certificate and its key are two files: they are read once both have come to rest.
awaitable<void> PortTls::follow(asio::any_io_executor executor) {
  asio::steady_timer timer{executor};
  Stamps before = look();
  for (;;) {
    timer.expires_after(kLook);
    co_await timer.async_wait(asio::use_awaitable);
    const Stamps now = look();
    const bool at_rest = now == std::exchange(before, now);
    if (at_rest && now != loaded_) reload();
  }
}

awaitable<void> PortTls::close() {
  if (tasks_) co_await tasks_->close();
}

}  // namespace tb::cli

// SPDX-License-Identifier: Apache-2.0
#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/error.h"
#include "net/openssl.h"

namespace tb::net {
namespace {

namespace asio = boost::asio;

// Where distributions keep what they trust, in one file.
constexpr const char* kBundles[] = {
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Alpine, Arch
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // RHEL, Fedora
    "/etc/pki/tls/certs/ca-bundle.crt",                   // older ones
    "/etc/ssl/ca-bundle.pem",                             // SUSE
    "/etc/ssl/cert.pem",
};

asio::ssl::context make_context() {
  start_openssl();
  asio::ssl::context context{asio::ssl::context::tls_client};
  TB_ASSERT(::SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION) == 1);
  context.set_verify_mode(asio::ssl::verify_peer);
  return context;
}

}  // namespace

Tls::Tls(const std::string& authorities, std::string setting)
    : context_(make_context()), setting_(std::move(setting)) {
  if (authorities.empty()) return;
  // OpenSSL takes a text without any for good.
  if (authorities.find("-----BEGIN ") == authorities.npos) {
    throw Error{Code::invalid, "there are no certificates in it"};
  }
  boost::system::error_code error;
  context_.add_certificate_authority(asio::buffer(authorities), error);
  if (error) throw Error{Code::invalid, "its certificates can't be read: " + error.message()};
  loaded_ = true;
}

void Tls::load_system() {
  if (loaded_) return;
  for (const char* path : kBundles) {
    if (::access(path, R_OK) != 0) continue;
    boost::system::error_code error;
    context_.load_verify_file(path, error);
    if (!error) loaded_ = true;
    if (loaded_) return;
  }
  throw Error{
      Code::unavailable,
      "this machine has no file of certificates to trust: install ca-certificates, or set " +
          setting_};
}

std::unique_ptr<TlsStream> Tls::wrap(asio::ip::tcp::socket& socket, const Url& url) {
  load_system();
  auto stream = std::make_unique<TlsStream>(socket, context_);
  SSL* const ssl = stream->native_handle();
  int good = 0;
  if (url.address) {
    good = ::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(ssl), url.host.c_str());
  } else {
    ::SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    good = ::SSL_set1_host(ssl, url.host.c_str());
    good = good == 1 ? static_cast<int>(SSL_set_tlsext_host_name(ssl, url.host.c_str())) : 0;
  }
  if (good != 1) throw Error{Code::internal, "the host can't be checked"};
  return stream;
}

asio::awaitable<void> Tls::handshake(TlsStream& stream) {
  const auto [error] = co_await stream.async_handshake(asio::ssl::stream_base::client,
                                                       asio::as_tuple(asio::use_awaitable));
  if (!error) co_return;
  if (error == asio::error::operation_aborted) throw boost::system::system_error{error};
  const long verdict = ::SSL_get_verify_result(stream.native_handle());
  const std::string why =
      verdict == X509_V_OK ? error.message() : ::X509_verify_cert_error_string(verdict);
  throw Error{Code::unavailable, "TLS: " + why};
}

}  // namespace tb::net

// SPDX-License-Identifier: Apache-2.0
#include "docker/engine.h"

#include <sys/stat.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace tb::docker {
namespace {

constexpr unsigned kOldestApi = 40;  // 1.40, of Docker 19.03
constexpr auto kRemoval = 30s;

// What the engine says is wrong: {"message": "…"}.
std::string words_of(const http::Response& response) {
  boost::system::error_code error;
  const json::value body = json::parse(response.body, error);
  const json::object* object = error ? nullptr : body.if_object();
  const json::value* message = object ? object->if_contains("message") : nullptr;
  if (message && message->is_string()) return std::string{message->as_string()};
  return "status " + std::to_string(response.status);
}

Code code_of(int status) {
  if (status == 404) return Code::not_found;
  if (status == 409) return Code::conflict;
  if (status == 400) return Code::invalid;
  return Code::unavailable;
}

[[noreturn]] void fail(const std::string& doing, const http::Response& response) {
  throw Error{code_of(response.status), "Docker: " + doing + ": " + words_of(response)};
}

// "1.41" → 41.
unsigned minor_of(std::string_view version) {
  unsigned minor = 0;
  const std::size_t dot = version.find('.');
  if (dot == std::string_view::npos || version.substr(0, dot) != "1") return dot ? 1000 : 0;
  std::from_chars(version.data() + dot + 1, version.data() + version.size(), minor);
  return minor;
}

// Why nobody answers, as far as the socket's file tells.
std::string explain_unreachable(const std::string& socket, const std::string& words) {
  struct stat info{};
  const bool found = ::stat(socket.c_str(), &info) == 0;
  if (!found && errno != EACCES) {
    return "Docker: there is no socket " + socket +
           ": start the engine (systemctl start docker), or name its socket in DOCKER_HOST";
  }
  if (!found || ::access(socket.c_str(), R_OK | W_OK) != 0) {
    return "Docker: the server may not use " + socket +
           ": its user has to be in the socket's group (usually docker)";
  }
  return "Docker: nobody answers at " + socket +
         ": start the engine (systemctl start docker): " + words;
}

Error no_image(const std::string& image, bool usual) {
  if (usual) {
    return {Code::unavailable, "Docker: there is no image " + image +
                                   ": build it (docker build -t " + image +
                                   " -f deploy/Dockerfile.sandbox deploy), pull it, or name " +
                                   "another one in CONTAINER_IMAGE"};
  }
  return {Code::invalid, "Docker: there is no image " + image +
                             ", which the environment or the request names: pull or build it, or " +
                             "choose another environment (GET /api/registry/environments)"};
}

}  // namespace

// Goes into a path as it is.
bool is_image_name(std::string_view name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view{"._-/:@"}.find(c) != std::string_view::npos;
  };
  return !name.empty() && name.size() <= 255 && name.front() != '/' &&
         name.find("..") == std::string_view::npos && std::all_of(name.begin(), name.end(), good);
}

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    char code[4];
    std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned char>(c));
    out += plain ? std::string(1, c) : std::string{code};
  }
  return out;
}

std::string make_tar(const std::vector<TarEntry>& entries) {
  constexpr std::size_t kBlock = 512;
  std::string tar;
  for (const TarEntry& entry : entries) {
    std::string head(kBlock, '\0');
    const auto put = [&](std::size_t at, std::string_view text) {
      head.replace(at, text.size(), text);
    };
    const auto octal = [&](std::size_t at, unsigned width, std::uint64_t value) {
      char text[24];
      std::snprintf(text, sizeof text, "%0*llo", static_cast<int>(width - 1),
                    static_cast<unsigned long long>(value));
      put(at, text);
    };
    put(0, std::string_view{entry.name}.substr(0, 100));
    octal(100, 8, entry.mode);
    octal(108, 8, entry.uid);
    octal(116, 8, entry.gid);
    octal(124, 12, entry.content.size());
    octal(136, 12, 0);
    put(148, "        ");
    put(156, entry.name.ends_with('/') ? "5" : "0");
    put(257, std::string_view{"ustar\00000", 8});
    unsigned sum = 0;
    for (const char c : head) sum += static_cast<unsigned char>(c);
    octal(148, 7, sum);
    head[154] = '\0';
    tar += head;
    tar += entry.content;
    tar.append((kBlock - entry.content.size() % kBlock) % kBlock, '\0');
  }
  tar.append(2 * kBlock, '\0');
  return tar;
}

Engine::Engine(asio::any_io_executor executor, EngineSettings settings)
    : settings_(std::move(settings)),
      client_(executor, http::Endpoint::unix_socket(settings_.socket)) {}

awaitable<http::Response> Engine::ask(std::string method, std::string target,
                                      std::vector<http::Header> headers, std::string body) {
  std::string unreachable;
  try {
    co_return co_await client_.request(method, target, std::move(headers), std::move(body));
  } catch (const Error& error) {
    if (error.code() != Code::unavailable) throw;
    unreachable = explain_unreachable(settings_.socket, error.what());
  }
  throw Error{Code::unavailable, unreachable};
}

awaitable<json::value> Engine::call(std::string method, std::string target, json::value body) {
  std::vector<http::Header> headers;
  std::string text;
  if (!body.is_null()) {
    headers.push_back({"Content-Type", "application/json"});
    text = json::serialize(body);
  }
  const std::string doing = method + " " + target.substr(0, target.find('?'));
  const http::Response response =
      co_await ask(std::move(method), std::move(target), std::move(headers), std::move(text));
  if (response.status >= 400) fail(doing, response);
  boost::system::error_code ignored;
  json::value answer = json::parse(response.body, ignored);
  co_return answer;
}

awaitable<void> Engine::check_usable(std::string image) {
  const json::value version = co_await call("GET", "/version");
  const json::value* api =
      version.is_object() ? version.as_object().if_contains("ApiVersion") : nullptr;
  const std::string text = api && api->is_string() ? std::string{api->as_string()} : "0";
  if (minor_of(text) < kOldestApi) {
    throw Error{Code::unavailable, "Docker: the engine at " + settings_.socket +
                                       " speaks version " + text + " of its API and 1." +
                                       std::to_string(kOldestApi) +
                                       " is needed: install Docker 19.03 or newer"};
  }
  if (!is_image_name(image)) throw Error{Code::invalid, "Docker: no image can be named " + image};
  const http::Response found = co_await ask("GET", "/images/" + image + "/json", {}, {});
  if (found.status == 404) throw no_image(image, image == settings_.image);
  if (found.status >= 400) fail("look for the image " + image, found);
}

awaitable<std::string> Engine::create_container(std::string name, json::object description) {
  const json::value made =
      co_await call("POST", "/containers/create?name=" + escape(name), std::move(description));
  co_return std::string{made.at("Id").as_string()};
}

awaitable<void> Engine::start_container(std::string id) {
  co_await call("POST", "/containers/" + id + "/start");
}

awaitable<void> Engine::remove_container(std::string id) {
  const auto executor = co_await asio::this_coro::executor;
  const auto deadline = std::chrono::steady_clock::now() + kRemoval;
  for (auto pause = 5ms; std::chrono::steady_clock::now() < deadline; pause *= 2) {
    const http::Response response =
        co_await ask("DELETE", "/containers/" + id + "?force=1&v=1", {}, {});
    if (response.status == 404 || response.status == 204) co_return;
    // 409: the engine is about to do it by itself.
    if (response.status != 409) fail("remove the container " + id, response);
    asio::steady_timer timer{executor, std::min<std::chrono::milliseconds>(pause, 200ms)};
    co_await timer.async_wait(asio::use_awaitable);
  }
  throw Error{Code::unavailable, "Docker: the container " + id + " is not removed"};
}

awaitable<bool> Engine::is_running(std::string id) {
  const http::Response response = co_await ask("GET", "/containers/" + id + "/json", {}, {});
  if (response.status != 200) co_return false;
  boost::system::error_code ignored;
  const json::value found = json::parse(response.body, ignored);
  const json::value* running = found.find_pointer("/State/Running", ignored);
  co_return running && running->is_bool() && running->as_bool();
}

awaitable<void> Engine::put_archive(std::string id, std::string path, std::string tar) {
  std::vector<http::Header> headers{{"Content-Type", "application/x-tar"}};
  const std::string target = "/containers/" + id + "/archive?path=" + escape(path);
  const http::Response response = co_await ask("PUT", target, std::move(headers), std::move(tar));
  if (response.status >= 400) fail("put files into " + path, response);
}

// As a tar file, whose first head says it: the size in octal at 124, the owner at 108.
awaitable<std::optional<Engine::FileFacts>> Engine::file_facts(std::string id, std::string path) {
  // The head is the beginning: a directory's content is not for us.
  std::string target = "/containers/" + id + "/archive?path=" + escape(path);
  const http::Response response = co_await client_.get_beginning(std::move(target), Bytes{512});
  if (response.status == 404) co_return std::nullopt;
  if (response.status >= 400) fail("look at " + path, response);
  if (response.body.size() < 512) co_return std::nullopt;
  FileFacts facts;
  const char* head = response.body.data();
  std::from_chars(head + 124, head + 135, facts.size, 8);
  std::from_chars(head + 108, head + 115, facts.uid, 8);
  co_return facts;
}

awaitable<void> Engine::remove_volume(std::string name) {
  const http::Response response =
      co_await ask("DELETE", "/volumes/" + escape(name) + "?force=1", {}, {});
  if (response.status >= 400 && response.status != 404) {
    fail("remove the volume " + name, response);
  }
}

awaitable<Attached> Engine::attach_exec(std::string id, std::vector<std::string> argv,
                                        std::string user) {
  json::object description{{"AttachStdin", true}, {"AttachStdout", true}, {"AttachStderr", true},
                           {"Tty", false},        {"User", user},         {"WorkingDir", "/"}};
  description["Cmd"] = json::value_from(argv);
  const json::value made =
      co_await call("POST", "/containers/" + id + "/exec", std::move(description));
  const std::string exec{made.at("Id").as_string()};
  std::vector<http::Header> headers{{"Content-Type", "application/json"}};
  http::Upgraded upgraded =
      co_await client_.upgrade("POST", "/exec/" + exec + "/start", "tcp", std::move(headers),
                               R"({"Detach":false,"Tty":false})");
  Attached attached{os::Fd{upgraded.socket}, std::move(upgraded.rest)};
  if (!attached.socket) fail("talk to the container", upgraded.response);
  co_return attached;
}

}  // namespace tb::docker

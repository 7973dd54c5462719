// SPDX-License-Identifier: Apache-2.0
#include "e2b/envd.h"

#include "base/sha256.h"

namespace tb::e2b {
namespace {

constexpr const char* kPort = "49983";
constexpr const char* kPing = "50";  // seconds: something is heard from a stream at least so often
constexpr Milliseconds kQuiet = 120s;  // then it counts as cut off
constexpr Bytes kMaxAnswer = 16_MiB;

Code code_of(const std::string& name) {
  if (name == "not_found") return Code::not_found;
  if (name == "invalid_argument" || name == "failed_precondition" || name == "out_of_range") {
    return Code::invalid;
  }
  if (name == "already_exists") return Code::conflict;
  if (name == "resource_exhausted") return Code::exhausted;
  return Code::unavailable;
}

Error not_theirs(const net::Answer& answer) {
  std::string kind = answer.content_type().substr(0, 60);
  if (kind.empty()) kind = "nothing";
  return Error{Code::unavailable, "what answers for the sandbox sends " + kind +
                                      ", which is no answer of E2B: look at E2B_SANDBOX_URL and "
                                      "E2B_DOMAIN"};
}

bool is(const net::Answer& answer, std::string_view type) {
  const std::string& told = answer.content_type();
  return told.starts_with(type) && (told.size() == type.size() || told[type.size()] == ';');
}

}  // namespace

CallError::CallError(std::string name, const std::string& message)
    : Error(code_of(name), message.empty() ? "the sandbox answered: " + name : message),
      name_(std::move(name)) {}

awaitable<std::optional<json::object>> Events::next() {
  Frame frame;
  while (!frames_.next(frame)) {
    if (frames_.broken()) throw Error{Code::unavailable, "the stream is malformed"};
    const std::string bytes = co_await answer_->read(kQuiet);
    if (bytes.empty()) throw Error{Code::unavailable, "the stream was cut off"};
    frames_.add(bytes);
  }
  auto message = parse_object(frame.message);
  if (!message) throw Error{Code::unavailable, "the stream is malformed"};
  if (!frame.last) co_return message;
  const json::object* error = object_of(*message, "error");
  if (error) throw CallError{text_of(*error, "code"), text_of(*error, "message")};
  // To its very end: then the connection can be used again.
  co_await answer_->read(kQuiet);
  co_return std::nullopt;
}

Envd::Envd(net::Client& client, net::Url base, std::string machine, std::string token)
    : client_(client),
      base_(std::move(base)),
      machine_(std::move(machine)),
      token_(std::move(token)) {
  while (base_.target.ends_with('/')) base_.target.pop_back();
}

net::Ask Envd::ask(std::string method, std::string target, const std::string& user) const {
  net::Ask ask;
  ask.method = std::move(method);
  ask.url = base_;
  ask.url.target += target;
  ask.headers = {{"User-Agent", "threadbox/" TB_VERSION},
                 {"E2b-Sandbox-Id", machine_},
                 {"E2b-Sandbox-Port", kPort}};
  if (!token_.empty()) ask.headers.push_back({"X-Access-Token", token_});
  if (!user.empty()) ask.headers.push_back({"Authorization", "Basic " + base64(user + ":")});
  return ask;
}

// Always throws.
awaitable<void> Envd::refuse(net::Answer& answer) {
  const int status = answer.status();
  std::string body;
  try {
    body = co_await answer.read_all(kMaxAnswer);
  } catch (const Error&) {
    body.clear();  // the status says enough
  }
  const auto told = parse_object(body);
  const std::string message = told ? text_of(*told, "message") : std::string{};
  if (status == 502 && told && told->contains("sandboxId") &&
      message.find("not found") != message.npos) {
    if (const auto callback = std::exchange(gone_, nullptr)) callback();
    throw Gone{};
  }
  const std::string name = told ? text_of(*told, "code") : std::string{};
  if (!name.empty()) throw CallError{name, message};
  const std::string what = std::to_string(status) + (message.empty() ? "" : " " + message);
  if (status == 404) throw CallError{"not_found", message};
  if (status == 400) throw CallError{"invalid_argument", message};
  if (status == 401) throw CallError{"unauthenticated", message};
  if (status == 429) throw CallError{"resource_exhausted", message};
  if (status == 507) throw CallError{"no_space", message};
  throw Error{Code::unavailable, "the sandbox can't be reached through E2B: " + what};
}

awaitable<json::object> Envd::call(std::string method, json::object request, std::string user,
                                   Milliseconds limit) {
  net::Ask question = ask("POST", "/" + method, user);
  question.headers.push_back({"Content-Type", "application/json"});
  question.headers.push_back({"Connect-Protocol-Version", "1"});
  question.body = json::serialize(request);
  question.answer = limit;
  const auto answer = co_await client_.send(std::move(question));
  if (answer->status() != 200) co_await refuse(*answer);
  if (!is(*answer, "application/json")) throw not_theirs(*answer);
  const std::string body = co_await answer->read_all(kMaxAnswer);
  auto message = parse_object(body);
  if (!message) throw not_theirs(*answer);
  co_return std::move(*message);
}

awaitable<std::unique_ptr<Events>> Envd::open(std::string method, json::object request,
                                              std::string user) {
  net::Ask question = ask("POST", "/" + method, user);
  question.headers.push_back({"Content-Type", "application/connect+json"});
  question.headers.push_back({"Connect-Protocol-Version", "1"});
  question.headers.push_back({"Keepalive-Ping-Interval", kPing});
  question.body = envelope(json::serialize(request));
  auto answer = co_await client_.send(std::move(question));
  if (answer->status() != 200) co_await refuse(*answer);
  if (!is(*answer, "application/connect+json")) throw not_theirs(*answer);
  co_return std::make_unique<Events>(std::move(answer));
}

awaitable<std::unique_ptr<net::Answer>> Envd::read_file(std::string path, std::uint64_t offset) {
  net::Ask question = ask("GET", "/files?path=" + percent_encode(path), {});
  question.repeatable = true;
  if (offset > 0) question.headers.push_back({"Range", "bytes=" + std::to_string(offset) + "-"});
  auto answer = co_await client_.send(std::move(question));
  const int expected = offset > 0 ? 206 : 200;
  if (answer->status() == expected) co_return answer;
  if (answer->status() / 100 == 2) throw not_theirs(*answer);
  co_await refuse(*answer);
  co_return nullptr;
}

awaitable<void> Envd::write_file(std::string path, std::uint64_t length,
                                 std::function<awaitable<std::string>()> next) {
  net::Ask question = ask("POST", "/files?path=" + percent_encode(path), {});
  question.headers.push_back({"Content-Type", "application/octet-stream"});
  question.length = length;
  question.next = std::move(next);
  question.answer = 60s;
  const auto answer = co_await client_.send(std::move(question));
  if (answer->status() / 100 != 2) co_await refuse(*answer);
  co_await answer->read_all(kMaxAnswer);
}

awaitable<bool> Envd::healthy() {
  net::Ask question = ask("GET", "/health", {});
  question.repeatable = true;
  question.answer = 10s;
  try {
    const auto answer = co_await client_.send(std::move(question));
    if (answer->status() / 100 != 2) co_await refuse(*answer);
    co_await answer->read_all(kMaxAnswer);
    co_return true;
  } catch (const Gone&) {
    throw;
  } catch (const Error&) {
    co_return false;
  }
}

}  // namespace tb::e2b

// SPDX-License-Identifier: Apache-2.0
#include "hooks/callbacks.h"

#include <csignal>

#include "base/error.h"
#include "base/iso8601.h"
#include "base/log.h"
#include "base/utf8.h"
#include "hooks/naming.h"

namespace tb::hooks {
namespace json = boost::json;
namespace {

constexpr std::size_t kTail = 64 << 10;  // bytes of each stream
constexpr Milliseconds kStoreRetry = 5s;
constexpr const char* kType = "process.ended";

// The newest bytes; fewer when some in between were not kept, or its files are gone already.
void add_tail(json::object& data, const sandbox::Process& process, sandbox::Stream stream,
              const std::string& name) {
  const std::uint64_t total = process.output_size(stream);
  std::uint64_t at = process.next_output(stream, total > kTail ? total - kTail : 0);
  const std::uint64_t begin = at;
  std::string text;
  while (at < total) {
    const std::string more = process.read_output(stream, at, kTail);
    if (more.empty()) break;
    text += more;
    at = process.next_output(stream, at + more.size());
  }
  data[name + "_truncated"] = begin > 0 || text.size() < total;
  data[name] = to_utf8(std::move(text));
}

std::string to_body(json::object data) {
  const json::object body{{"type", kType},
                          {"timestamp", iso8601_ms(std::chrono::system_clock::now())},
                          {"data", std::move(data)}};
  return json::serialize(body);
}

// Nobody is left who could say how it ended.
std::string lost_body(const std::string& started) {
  boost::system::error_code failed;
  const json::value body = json::parse(started, failed);
  json::object data;
  if (!failed && body.is_object() && body.get_object().contains("data") &&
      body.at("data").is_object()) {
    data = body.at("data").get_object();
  }
  data["state"] = "exited";
  data["exit_code"] = 128 + SIGKILL;
  data["cause"] = sandbox::name_of(sandbox::Cause::lost);
  data["timed_out"] = false;
  data["signal"] = SIGKILL;
  data["limits_hit"] = json::array{};
  data["stdin_open"] = false;
  for (const char* name : {"execution_time_ms", "cpu_time_ms", "peak_memory_bytes"}) data[name] = 0;
  for (const std::string stream : {"stdout", "stderr"}) {
    data[stream] = "";
    data[stream + "_truncated"] = true;
  }
  return to_body(std::move(data));
}

}  // namespace

std::string delivery_id(const std::string& session, const sandbox::Process& process) {
  const auto started = process.info().started.time_since_epoch();
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(started).count();
  return "msg_" + name_after(std::string{kType} + "\n" + session + "\n" +
                             std::to_string(process.id()) + "\n" + std::to_string(us));
}

Callbacks::Callbacks(asio::any_io_executor executor, Deliveries& deliveries, Render render)
    : executor_(executor),
      deliveries_(deliveries),
      render_(std::move(render)),
      tasks_(executor, [](const std::string& name, std::exception_ptr) {
        log(LogLevel::debug, "task_ended", {{"task", name}});
      }) {}

awaitable<void> Callbacks::expect(std::shared_ptr<session::Session> session,
                                  std::shared_ptr<sandbox::Sandbox> sandbox,
                                  std::shared_ptr<sandbox::Process> process) {
  Delivery delivery;
  delivery.id = delivery_id(session->id, *process);
  delivery.type = kType;
  delivery.url = process->info().notify_url;
  delivery.tenant = session->spec.tenant;
  delivery.session = session->id;
  delivery.thread = session->spec.thread;
  delivery.process = process->id();
  if (delivery.url.empty() || !watched_.insert(delivery.id).second) co_return;
  json::object data = render_(*process);
  data["session_id"] = session->id;
  data["thread_id"] = session->spec.thread;
  if (!session->spec.tenant.empty()) data["tenant"] = session->spec.tenant;
  Delivery expected = delivery;
  expected.body = to_body(std::move(data));
  std::optional<State> before;
  try {
    before = co_await deliveries_.expect(std::move(expected));
  } catch (const Error& error) {
    // Its note still carries it, and we do.
    log(LogLevel::warning, "webhook_not_recorded", {{"id", delivery.id}, {"error", error.what()}});
  }
  if (before && *before != State::waiting) {
    watched_.erase(delivery.id);  // an earlier server came so far
    sandbox->notified(process->id());
    co_return;
  }
  std::weak_ptr<sandbox::Sandbox> box = sandbox;
  tasks_.spawn("callback " + delivery.id,
               [this, delivery, box, process] { return watch(delivery, box, process); });
}

awaitable<void> Callbacks::watch(Delivery delivery, std::weak_ptr<sandbox::Sandbox> sandbox,
                                 std::shared_ptr<sandbox::Process> process) {
  co_await process->wait();
  json::object data = render_(*process);
  data["session_id"] = delivery.session;
  data["thread_id"] = delivery.thread;
  if (!delivery.tenant.empty()) data["tenant"] = delivery.tenant;
  add_tail(data, *process, sandbox::Stream::out, "stdout");
  add_tail(data, *process, sandbox::Stream::err, "stderr");
  delivery.body = to_body(std::move(data));
  asio::steady_timer timer{executor_};
  for (bool stored = false; !stored;) {
    try {
      Delivery copy = delivery;
      co_await deliveries_.enqueue(std::move(copy));
      stored = true;
    } catch (const Error& error) {
      log(LogLevel::warning, "webhook_not_recorded",
          {{"id", delivery.id}, {"error", error.what()}});
    }
    if (stored) break;
    timer.expires_after(kStoreRetry);
    co_await timer.async_wait(asio::use_awaitable);
  }
  watched_.erase(delivery.id);
  if (const auto box = sandbox.lock()) box->notified(process->id());
}

awaitable<void> Callbacks::settle() {
  for (const Delivery& row : co_await deliveries_.list(State::waiting, SIZE_MAX)) {
    if (watched_.contains(row.id)) continue;
    co_await deliveries_.give_up_waiting(row.id, lost_body);
  }
}

awaitable<void> Callbacks::close() { co_await tasks_.close(); }

}  // namespace tb::hooks

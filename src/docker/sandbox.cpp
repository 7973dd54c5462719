// SPDX-License-Identifier: Apache-2.0
#include "docker/sandbox.h"

#include <sys/socket.h>

#include <boost/json.hpp>

namespace tb::docker {
namespace {

using guest::carrier::Kind;

constexpr int kAttempts = 5;  // to reach a container that runs
constexpr auto kPause = 50ms;
constexpr auto kDoor = 10s;  // for a carrier to come to it, or to answer
constexpr std::size_t kMaxWaiting = 8 << 20;

std::optional<std::uint64_t> number_at(const json::value& from, const char* path) {
  boost::system::error_code ignored;
  const json::value* found = from.find_pointer(path, ignored);
  if (!found || !found->is_number()) return std::nullopt;
  return found->to_number<std::uint64_t>(ignored);
}

}  // namespace

DockerSandbox::DockerSandbox(asio::any_io_executor executor, std::string id, std::string label,
                             Settings settings, Engine& engine, std::string container,
                             std::string door_dir)
    : GuestSandbox(executor, std::move(id), std::move(label), std::move(settings)),
      engine_(engine),
      container_(std::move(container)),
      door_dir_(std::move(door_dir)),
      channels_(executor, [this](Kind kind, std::string_view payload) { send(kind, payload); }),
      files_([this] {
        if (!alive()) throw Error{Code::unavailable, "the sandbox is gone"};
        return channels_.open();
      }) {}

awaitable<std::shared_ptr<Link>> DockerSandbox::find_carrier() {
  Door door{executor(), door_dir_};
  std::vector<std::string> argv{kGuestPath, "carry", id()};
  Attached attached = co_await engine_.attach_exec(container_, std::move(argv), kCarrierUser);
  Writer begin;
  begin.bytes(door.token().empty() ? std::string{} : door.name());
  begin.bytes(door.token());
  const std::string frame = guest::carrier::frame(Kind::begin, begin.view());
  (void)!::send(attached.socket.get(), frame.data(), frame.size(), MSG_NOSIGNAL);
  os::Fd direct;
  if (attached.rest.empty()) direct = co_await door.admit(attached.socket.get(), kDoor);
  co_return std::make_shared<Link>(executor(), std::move(attached), std::move(direct));
}

// One life of a carrier. False: there was none.
awaitable<bool> DockerSandbox::carry() {
  heard_ = false;
  try {
    const auto link = co_await find_carrier();
    if (!alive()) co_return false;
    link_ = link;
  } catch (const std::exception& error) {
    trouble_ = error.what();
    co_return false;
  }
  if (lease_.grace_ms > 0) {
    Writer out;
    lease_.encode(out);
    tell(out.take());
  }
  const std::string early = std::exchange(waiting_, {});
  guest::carrier::Frames frames;
  frames.add(early);
  Kind kind{};
  std::string_view payload;
  while (frames.next(kind, payload)) send(kind, payload);
  const auto link = link_;
  auto on_frame = [this](Kind came, std::string_view what) { this->on_frame(came, what); };
  auto after = [this] { acknowledge(); };
  const std::string why = co_await link->run(std::move(on_frame), std::move(after));
  link_.reset();
  if (!why.empty()) trouble_ = "the container's engine says: " + why;
  co_return heard_;
}

awaitable<void> DockerSandbox::serve() {
  const auto self = shared_from_this();
  int failures = 0;
  while (alive() && failures < kAttempts) {
    const bool carried = co_await carry();
    if (!alive()) co_return;
    interrupted();
    failures = carried ? 0 : failures + 1;
    bool running = false;
    try {
      running = co_await engine_.is_running(container_);
    } catch (const std::exception& error) {
      trouble_ = error.what();
      running = true;  // it may be there again in a moment
    }
    if (!running) {
      if (trouble_.empty()) trouble_ = "the container has ended";
      break;
    }
    asio::steady_timer pause{executor(), kPause * (failures * failures)};
    co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
  }
  close();
}

void DockerSandbox::interrupted() {
  channels_.interrupted();
  for (const auto& [id, weak] : inputs_) {
    if (const auto input = weak.lock()) input->interrupted();
  }
  forget_starts();
  begin_again();
}

// Whoever waits for them is told that they did not happen: so they must not.
void DockerSandbox::forget_starts() {
  guest::carrier::Frames frames;
  frames.add(std::exchange(waiting_, {}));
  Kind kind{};
  std::string_view payload;
  while (frames.next(kind, payload)) {
    const bool start = payload.starts_with(static_cast<char>(guest::Message::start));
    if (!start) waiting_ += guest::carrier::frame(kind, payload);
  }
}

void DockerSandbox::lease(Milliseconds idle, Milliseconds grace) {
  lease_.idle_ms = static_cast<std::uint64_t>(idle.count());
  lease_.grace_ms = static_cast<std::uint64_t>(grace.count());
  Writer out;
  lease_.encode(out);
  if (link_) tell(out.take());  // the next carrier is told first of all
}

void DockerSandbox::tell(std::string message) { send(Kind::message, message); }

void DockerSandbox::send(Kind kind, std::string_view payload) {
  if (!alive()) return;
  if (link_) {
    if (!link_->send(kind, payload)) close();
  } else if (kind == Kind::message && waiting_.size() + payload.size() <= kMaxWaiting) {
    waiting_ += guest::carrier::frame(kind, payload);
  } else if (kind != Kind::message) {
    // What belongs to a carrier that is gone ends with it.
    channels_.interrupted();
  }
}

void DockerSandbox::disconnect() {
  if (link_) link_->close();
  channels_.interrupted();
}

std::shared_ptr<CarriedInput> DockerSandbox::make_input(std::uint32_t id) {
  return std::make_shared<CarriedInput>([this, id](std::string_view bytes) {
    Writer out;
    out.u32(id);
    out.bytes(bytes);
    send(Kind::input, out.view());
  });
}

bool DockerSandbox::connect(box::GuestProcess& process, const guest::Started& started,
                            std::span<os::Fd>) {
  const std::uint32_t id = started.id;
  box::GuestProcess::Carried carried;
  if (started.streams != guest::Streams::output) {
    std::erase_if(inputs_, [](const auto& entry) { return entry.second.expired(); });
    auto input = inputs_[id].lock();
    if (input) {
      input->resumed();
    } else {
      input = make_input(id);
      inputs_[id] = input;
    }
    carried.input = std::move(input);
  }
  carried.resize = [this, id](unsigned rows, unsigned columns) {
    Writer out;
    out.u32(id);
    out.u32(rows);
    out.u32(columns);
    send(Kind::resize, out.view());
  };
  process.started(started, std::move(carried));
  return true;
}

void DockerSandbox::on_frame(Kind kind, std::string_view payload) {
  heard_ = true;
  if (channels_.receive(kind, payload)) return;
  if (kind == Kind::told) return receive(payload, {});
  Reader in{payload};
  const std::uint32_t id = in.u32();
  if (kind == Kind::input_taken) {
    const std::uint32_t bytes = in.u32();
    const auto found = inputs_.find(id);
    const auto input = found == inputs_.end() ? nullptr : found->second.lock();
    if (input) input->taken(bytes, in.u8() != 0);
    return;
  }
  const auto process = find_guest_process(id);
  if (!process) return;
  const auto stream = in.u8() == 0 ? sandbox::Stream::out : sandbox::Stream::err;
  if (kind == Kind::output) {
    const std::uint64_t offset = in.u64();
    process->printed(stream, offset, in.view());
  } else if (kind == Kind::output_end) {
    process->stream_ended(stream);
  }
}

void DockerSandbox::acknowledge() {
  for (const auto& [id, process] : all()) process->acknowledge();
}

awaitable<sandbox::Load> DockerSandbox::load() {
  const auto self = shared_from_this();
  const json::value stats = co_await engine_.call(
      "GET", "/containers/" + container_ + "/stats?stream=false&one-shot=true");
  sandbox::Load load;
  if (const auto bytes = number_at(stats, "/memory_stats/usage")) load.memory = Bytes{*bytes};
  if (const auto nanos = number_at(stats, "/cpu_stats/cpu_usage/total_usage")) {
    load.cpu = std::chrono::microseconds{*nanos / 1000};
  }
  load.processes = number_at(stats, "/pids_stats/current");
  co_return load;
}

}  // namespace tb::docker

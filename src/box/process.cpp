// SPDX-License-Identifier: Apache-2.0
#include "box/process.h"

#include <signal.h>
#include <sys/ioctl.h>

#include <boost/asio/post.hpp>
#include <cstring>

#include "box/command.h"
#include "guest/container_wire.h"

namespace tb::box {
namespace {

constexpr auto kStoreDelay = 2ms;  // for the first of what a command prints

struct Listening {
  explicit Listening(unsigned& count) : count_(count) { ++count_; }
  ~Listening() { --count_; }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  unsigned& count_;
};

}  // namespace

GuestProcess::GuestProcess(asio::any_io_executor executor, std::uint32_t id,
                           const std::string& path, const OutputLimits& limits, Tell tell,
                           Earlier earlier)
    : executor_(executor),
      id_(id),
      path_(path),
      output_(path, limits, earlier),
      tell_(std::move(tell)),
      changed_(executor) {}

template <class Message>
void GuestProcess::tell(const Message& message) {
  Writer out;
  message.encode(out);
  tell_(out.take());
}

void GuestProcess::started(const guest::Started& started, os::Fd fds[3]) {
  if (!info_.started.time_since_epoch().count()) restore_info(started.note);  // an earlier server's
  info_.pid = started.pid;
  if (started.streams == guest::Streams::terminal) {
    // Another descriptor: one can't be waited for in two ways by two owners.
    input_ = std::make_shared<Input>(executor_, os::duplicate(fds[0]), when_input_closes());
    output_.open_terminal(std::move(fds[0]), std::move(fds[1]), std::move(fds[2]));
    output_.drain();  // an earlier server may have left something in the pipe
  } else {
    if (started.streams == guest::Streams::open) {
      input_ = std::make_shared<Input>(executor_, std::move(fds[2]), when_input_closes());
    }
    output_.open_pipes(std::move(fds[0]), std::move(fds[1]));
  }
  started_ = true;
  // Most commands are over when we hear of them: the next message says so.
  asio::post(executor_, [self = weak_from_this()] {
    const auto process = self.lock();
    const bool watched = process && (process->watched_[0].pipe || process->watched_[1].pipe);
    if (process && !watched && !process->exit_) process->watch_both();
  });
  // An earlier server's, which had not yet stored all that it printed, or not said so.
  if (exit_) released_ = 0;
  changed_.notify_all();
}

bool GuestProcess::start_interrupted() {
  if (heard_of()) return false;
  start_failed({id_, ECONNRESET, "stay alive"});
  return true;
}

void GuestProcess::start_failed(const guest::Failure& failure) {
  failure_ = failure;
  changed_.notify_all();
}

void GuestProcess::restore_info(std::string_view note) { from_note(note, info_); }

std::function<void()> GuestProcess::when_input_closes() {
  return [this] {
    if (!info_.terminal) tell(guest::CloseInput{id_});
  };
}

void GuestProcess::started(const guest::Started& started, Carried carried) {
  if (!info_.started.time_since_epoch().count()) restore_info(started.note);  // an earlier server's
  info_.pid = started.pid;
  carried_ = true;
  resize_ = std::move(carried.resize);
  // One that is told again goes on with what it had: a sink that waits is told of its carrier's
  // end.
  if (carried.input && !input_) {
    input_ = std::make_shared<Input>(executor_, std::move(carried.input), when_input_closes());
  }
  output_.open_told(info_.terminal);  // what has ended is told again too
  for (int i = 0; i < 2; ++i) acknowledged_[i] = started.taken[i];
  released_ = 0;
  started_ = true;
  changed_.notify_all();
}

void GuestProcess::printed(Stream stream, std::uint64_t offset, std::string_view bytes) {
  output_.append(stream, offset, bytes);
  if (exit_) output_.close_files();
  changed_.notify_all();
}

void GuestProcess::stream_ended(Stream stream) {
  output_.stream(stream).end();
  release();
  changed_.notify_all();
}

void GuestProcess::acknowledge() {
  if (!carried_ || (released_ & guest::Release::kOutput)) return;
  for (const Stream stream : {Stream::out, Stream::err}) {
    const std::uint64_t total = output_.total(stream);
    const std::uint8_t index = stream == Stream::err;
    if (total <= acknowledged_[index] || output_.at_end(stream)) continue;
    acknowledged_[index] = total;
    Writer out;
    guest::Taken{id_, index, total}.encode(out, guest::Message::stored);
    tell_(out.take());
  }
}

void GuestProcess::push_input(std::string bytes) {
  if (input_) input_->push(std::move(bytes));
}

awaitable<void> GuestProcess::write_input(std::string bytes) {
  const auto self = shared_from_this();
  if (!input_) throw Error{Code::conflict, "stdin was not kept open"};
  co_await input_->write(std::move(bytes));
}

awaitable<std::size_t> GuestProcess::offer_input(std::string bytes, Milliseconds limit) {
  const auto self = shared_from_this();
  if (!input_) throw Error{Code::conflict, "stdin was not kept open"};
  co_return co_await input_->offer(std::move(bytes), limit);
}

void GuestProcess::close_input() {
  if (!input_) return;
  if (info_.terminal) {
    input_->push("\4");
  } else {
    input_->finish();
  }
}

void GuestProcess::resize(unsigned rows, unsigned columns) {
  if (!info_.terminal) throw Error{Code::invalid, "the process has no terminal"};
  validate(sandbox::Terminal{rows, columns});
  if (carried_ && exit_) throw Error{Code::conflict, "the process has ended"};
  if (carried_) return resize_(rows, columns);
  const os::Fd& terminal = output_.stream(Stream::out).terminal();
  if (!terminal) throw Error{Code::conflict, "the process has ended"};
  winsize size{};
  size.ws_row = static_cast<unsigned short>(rows);
  size.ws_col = static_cast<unsigned short>(columns);
  check(::ioctl(terminal.get(), TIOCSWINSZ, &size), "set the terminal's size");
}

void GuestProcess::watch_both() {
  watch(Stream::out);
  watch(Stream::err);
}

// The descriptor is watched, not owned: the output file decides when it is closed.
void GuestProcess::watch(Stream which) {
  StreamFile& file = output_.stream(which);
  if (file.at_end() || !file.source()) return;
  Watched& watched = watched_[which == Stream::err];
  if (watched.waits) return;
  if (!watched.pipe) watched.pipe.emplace(executor_, file.source().get());
  watched.waits = true;
  watched.pipe->async_wait(asio::posix::stream_descriptor::wait_read,
                           [self = weak_from_this(), which](boost::system::error_code error) {
                             if (error) return;
                             if (auto process = self.lock()) process->on_readable(which);
                           });
}

// To store it takes longer than most commands do after they have printed: unless somebody waits for
// output, it is worth waiting for the end.
void GuestProcess::on_readable(Stream which) {
  Watched& watched = watched_[which == Stream::err];
  watched.waits = false;
  if (!watched.pipe) return;
  if (!printed_ && !exit_ && listeners_ == 0) return store_soon();
  store_readable();
}

void GuestProcess::store_soon() {
  if (storing_) return;  // the other stream has something, too
  storing_.emplace(executor_, kStoreDelay);
  storing_->async_wait([self = weak_from_this()](boost::system::error_code error) {
    const auto process = self.lock();
    if (process && !error && !process->exit_) process->store_readable();
  });
}

void GuestProcess::store_readable() {
  printed_ = true;
  storing_.reset();
  output_.drain();
  for (const Stream stream : {Stream::out, Stream::err}) {
    if (output_.stream(stream).at_end()) stop_watching(stream);
  }
  close_ended();
  watch_both();
  if (exit_) output_.close_files();  // background output is rare: no descriptor waits for it
  release();
  changed_.notify_all();
}

void GuestProcess::stop_following() {
  stop_watching();
  storing_.reset();
  output_.drain();
  output_.abandon();
  release();
  changed_.notify_all();
}

void GuestProcess::stop_watching() {
  stop_watching(Stream::out);
  stop_watching(Stream::err);
}

void GuestProcess::stop_watching(Stream which) {
  Watched& watched = watched_[which == Stream::err];
  if (watched.pipe) watched.pipe->release();
  watched.pipe.reset();
  watched.waits = false;
}

void GuestProcess::exited(const guest::Exited& exit) {
  // All that it printed before its end is in the pipes by now. What goes on printing in the
  // background is followed further.
  stop_watching();
  storing_.reset();
  if (input_) input_->close();
  if (info_.terminal) {
    // With its leader's end a terminal hangs up: nobody can print on it any more, but somebody may
    // hold it open.
    output_.drain_all();
    output_.abandon();
  } else {
    output_.drain_soon();
  }
  set_exit(translate(exit));
  close_ended();
  // Nobody else has its streams, most likely, and they end in a moment: store_output() looks.
  if (listeners_ > 0) watch_both();
  changed_.notify_all();
  // After those who waited have had their turn.
  asio::post(executor_, [self = shared_from_this()] { self->output_.close_files(); });
}

void GuestProcess::close_ended() {
  for (const Stream stream : {Stream::out, Stream::err}) {
    StreamFile& file = output_.stream(stream);
    if (file.at_end() && !file.peeked()) file.close_pipe();
  }
}

void GuestProcess::store_output() {
  if (!output_waits()) return;
  stop_watching();
  output_.drain();
  close_ended();
  watch_both();
  release();
  changed_.notify_all();
  // After those who waited: its files may be removed before they have their turn.
  asio::post(executor_, [self = shared_from_this()] { self->output_.close_files(); });
}

void GuestProcess::on_exit(std::function<void(const sandbox::Exit&)> callback) {
  if (!exit_) on_exit_ = std::move(callback);
}

void GuestProcess::set_exit(sandbox::Exit exit) {
  exit_ = std::move(exit);
  if (const auto told = std::exchange(on_exit_, nullptr)) told(*exit_);
}

void GuestProcess::restore(const guest::Exited& exit) {
  started_ = true;
  noted_ = true;
  exit_ = translate(exit);
  released_ = guest::Release::kExit | guest::Release::kOutput;
}

void GuestProcess::lost() {
  if (exit_) return store_output();
  stop_watching();
  if (input_) input_->close();
  output_.drain_all();
  output_.abandon();
  sandbox::Exit exit;
  exit.code = 128 + SIGKILL;
  exit.signal = SIGKILL;
  exit.cause = sandbox::Cause::lost;
  set_exit(exit);
  noted_ = true;  // there is nobody who could tell more
  if (!started_ && !failure_) failure_ = guest::Failure{id_, ECONNRESET, "stay alive"};
  changed_.notify_all();
}

void GuestProcess::detach() {
  stop_watching();
  storing_.reset();
  detached_ = true;
  if (input_) input_->close();
  for (const Stream stream : {Stream::out, Stream::err}) output_.stream(stream).close_pipe();
  output_.close_files();
  changed_.notify_all();
}

void GuestProcess::noted() {
  noted_ = true;
  release();
}

// Tells the guest what it may forget, each thing once.
void GuestProcess::release() {
  if (!noted_) return;
  std::uint8_t what = 0;
  if (exit_) what |= guest::Release::kExit;
  if (exit_ && output_.at_end() && !output_.peeked()) what |= guest::Release::kOutput;
  what &= static_cast<std::uint8_t>(~released_);
  if (what == 0) return;
  released_ |= what;
  tell(guest::Release{id_, what});
}

awaitable<bool> GuestProcess::wait_started(Milliseconds limit) {
  const auto self = shared_from_this();
  auto known = [this] { return started_ || failure_.has_value(); };
  const bool answered = co_await changed_.until(known, limit);
  if (failure_) throw explain(*failure_);
  co_return answered;
}

awaitable<sandbox::Exit> GuestProcess::wait() {
  const auto self = shared_from_this();
  while (!exit_ && !detached_) co_await changed_.wait();
  if (!exit_) throw sandbox::Detached{};
  co_return *exit_;
}

awaitable<void> GuestProcess::wait_output(Stream stream, std::uint64_t offset) {
  const auto self = shared_from_this();
  const Listening listening{listeners_};
  if (storing_ && !exit_) store_readable();
  while (output_.total(stream) <= offset && !output_ended(stream)) {
    if (detached_) throw sandbox::Detached{};
    co_await changed_.wait();
  }
}

void GuestProcess::kill() { tell(guest::Signal{id_, SIGKILL, 1}); }

void GuestProcess::signal(int number, bool tree) {
  if (number < 1 || number > SIGRTMAX) throw Error{Code::invalid, "no such signal"};
  tell(guest::Signal{id_, number, static_cast<std::uint8_t>(tree ? 1 : 0)});
}

}  // namespace tb::box

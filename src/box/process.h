// SPDX-License-Identifier: Apache-2.0
// A command that runs in a sandbox, as the server follows it.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/async.h"
#include "base/error.h"
#include "box/input.h"
#include "box/output.h"
#include "guest/wire.h"
#include "sandbox/sandbox.h"

namespace tb::box {

class GuestProcess : public sandbox::Process, public std::enable_shared_from_this<GuestProcess> {
 public:
  // How to reach the guest about this process.
  using Tell = std::function<void(std::string message)>;

  GuestProcess(asio::any_io_executor executor, std::uint32_t id, const std::string& path,
               const OutputLimits& limits, Tell tell, Earlier earlier = Earlier::possible);
  ~GuestProcess() override { stop_watching(); }
  GuestProcess(const GuestProcess&) = delete;
  GuestProcess& operator=(const GuestProcess&) = delete;

  void set_info(sandbox::ProcessInfo info) { info_ = std::move(info); }
  // The beginning of an open stdin; nobody waits for it.
  void push_input(std::string bytes);

  // ---- what the guest told ----
  // The descriptors are those that started.streams says.
  void started(const guest::Started& started, os::Fd fds[3]);
  // Through a carrier, which tells what is in them: at first, and again after each loss of it.
  struct Carried {
    std::shared_ptr<InputSink> input;  // absent: stdin is not open
    std::function<void(unsigned rows, unsigned columns)> resize;
  };
  void started(const guest::Started& started, Carried carried);
  void printed(Stream stream, std::uint64_t offset, std::string_view bytes);
  void stream_ended(Stream stream);
  // The guest is told what is stored of a stream, if that is more than it knows.
  void acknowledge();
  // What carried the start broke: true when it will never be known what became of it.
  bool start_interrupted();
  void start_failed(const guest::Failure& failure);
  void exited(const guest::Exited& exit);
  // Its exit is on disk: the guest may forget it.
  void noted();
  // What it printed at its end is, too.
  void store_output();
  void lost();
  // Ended under an earlier server, which wrote this down.
  void restore(const guest::Exited& exit);
  void restore_info(std::string_view note);

  // Another program listens to it from now on: waits of ours end with Detached.
  void detach();

  // Else it is an earlier server's, and the guest has not told of it.
  bool heard_of() const { return started_ || exit_ || failure_; }

  // False: nothing was heard for so long. Throws Error when it could not be started.
  awaitable<bool> wait_started(Milliseconds limit);

  std::uint32_t id() const override { return id_; }
  const sandbox::ProcessInfo& info() const override { return info_; }
  const std::optional<sandbox::Exit>& exit() const override { return exit_; }
  awaitable<sandbox::Exit> wait() override;
  void on_exit(std::function<void(const sandbox::Exit&)> callback) override;
  void kill() override;
  void signal(int number, bool tree) override;
  awaitable<void> write_input(std::string bytes) override;
  awaitable<std::size_t> offer_input(std::string bytes, Milliseconds limit) override;
  void close_input() override;
  bool input_open() const override { return input_ && input_->open(); }
  void resize(unsigned rows, unsigned columns) override;
  std::uint64_t output_size(Stream stream) const override { return output_.total(stream); }
  Captured captured(Stream stream) const override { return output_.captured(stream); }
  std::string read_output(Stream stream, std::uint64_t offset, std::size_t limit) const override {
    return output_.read(stream, offset, limit);
  }
  std::optional<sandbox::FilePart> find_output(Stream stream, std::uint64_t offset,
                                               std::size_t limit) const override {
    return output_.find(stream, offset, limit);
  }
  awaitable<void> wait_output(Stream stream, std::uint64_t offset) override;
  std::uint64_t next_output(Stream stream, std::uint64_t offset) const override {
    return output_.next_readable(stream, offset);
  }
  bool output_ended(Stream stream) const override { return output_.at_end(stream); }
  // All that there is to know of it is on disk.
  bool over() const { return noted_ && exit_ && output_.at_end() && !output_.peeked(); }
  // Ended, but something that it left running still holds its streams.
  bool lingers() const { return exit_ && !output_.at_end(); }
  // Follows them no further.
  void stop_following();
  std::uint64_t stored() const { return output_.stored(); }
  // What it printed, or the end of that, waits for store_output().
  bool output_waits() const { return output_.peeked() || lingers(); }
  void remove_files() const {
    if (output_.on_disk()) Output::remove_files(path_);
  }

 private:
  void watch(Stream which);
  void watch_both();
  void close_ended();
  void on_readable(Stream which);
  void store_soon();
  void store_readable();
  void stop_watching();
  void stop_watching(Stream which);
  void release();
  void set_exit(sandbox::Exit exit);
  std::function<void()> when_input_closes();
  template <class Message>
  void tell(const Message& message);

  asio::any_io_executor executor_;
  std::uint32_t id_;
  std::string path_;
  sandbox::ProcessInfo info_;
  Output output_;
  std::shared_ptr<Input> input_;  // absent: it was never open
  Tell tell_;
  Signal changed_;
  bool started_ = false;
  std::optional<guest::Failure> failure_;
  std::optional<sandbox::Exit> exit_;
  bool detached_ = false;
  bool noted_ = false;
  std::function<void(const sandbox::Exit&)> on_exit_;
  std::uint8_t released_ = 0;
  bool carried_ = false;
  std::function<void(unsigned, unsigned)> resize_;
  std::uint64_t acknowledged_[2] = {0, 0};
  struct Watched {
    std::optional<asio::posix::stream_descriptor> pipe;
    bool waits = false;  // for something to read
  };
  Watched watched_[2];
  unsigned listeners_ = 0;  // who wait for output, not only for the end
  bool printed_ = false;    // what it printed first was stored, or will be soon
  std::optional<asio::steady_timer> storing_;
};

sandbox::Exit translate(const guest::Exited& exited);
// Why something could not be started.
Error explain(const guest::Failure& failure);

}  // namespace tb::box

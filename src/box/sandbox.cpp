// SPDX-License-Identifier: Apache-2.0
#include "box/sandbox.h"

#include <fcntl.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>

#include "box/command.h"
#include "guest/expect_wire.h"

namespace tb::box {
namespace {

constexpr std::size_t kFollowed = 16;        // ended commands with output from the background
constexpr std::uint64_t kStoredStreams = 4;  // times the limit of a stream, for a whole session
constexpr auto kAnswer = 15s;                // for PID 1 to start a command

// Who waits for an answer has it by then, even if it is to run on our processor.
constexpr Milliseconds kStoreDelay = 1ms;

}  // namespace

GuestSandbox::GuestSandbox(asio::any_io_executor executor, std::string id, std::string label,
                           Settings settings)
    : executor_(executor),
      id_(std::move(id)),
      label_(std::move(label)),
      settings_(std::move(settings)),
      changed_(executor) {}

void GuestSandbox::receive(std::string_view message, std::span<os::Fd> passed) {
  Reader in{message};
  const auto type = static_cast<guest::Message>(in.u8());
  if (type == guest::Message::started) {
    told_started(in, passed);
  } else if (type == guest::Message::exited) {
    told_exited(in);
  } else if (type == guest::Message::both) {
    told_both(in, passed);
  } else if (type == guest::Message::shell) {
    told_shell(in);
  } else if (type == guest::Message::ready) {
    guest::Ready ready;
    if (!guest::Ready::decode(in, ready) || ready.version != guest::kVersion) return close();
    ready_ = true;
    to_be_told_ = ready.commands;
    if (to_be_told_ == 0) all_told();
  } else if (type == guest::Message::jail_failed) {
    guest::Failure failure;
    if (guest::Failure::decode(in, failure)) failure_ = failure;
    close();
  } else if (type == guest::Message::start_failed) {
    guest::Failure failure;
    if (!guest::Failure::decode(in, failure) || told_no_shell(failure)) return;
    const auto found = processes_.find(failure.id);
    if (found == processes_.end()) return;
    found->second->start_failed(failure);
    processes_.erase(found);
  }
}

void GuestSandbox::told_started(Reader& in, std::span<os::Fd> passed) {
  guest::Started started;
  const bool good = guest::Started::decode(in, started);
  std::shared_ptr<GuestProcess>& process = processes_[started.id];
  if (!process) process = make_process(started.id, Earlier::possible);
  next_ = std::max(next_, started.id + 1);
  if (!good || !connect(*process, started, passed)) {
    // Our own limit of descriptors: the command must not look as if it had printed nothing.
    const std::shared_ptr<GuestProcess> unheard = process;
    processes_.erase(started.id);
    unheard->start_failed({started.id, EMFILE, "be listened to"});
    unheard->kill();
    return;
  }
  if (to_be_told_ > 0 && --to_be_told_ == 0) all_told();
}

void GuestSandbox::told_both(Reader& in, std::span<os::Fd> passed) {
  const std::string first = in.bytes();
  const std::string second = in.bytes();
  Reader started{first}, exited{second};
  const bool good = in.done() &&
                    static_cast<guest::Message>(started.u8()) == guest::Message::started &&
                    static_cast<guest::Message>(exited.u8()) == guest::Message::exited;
  if (!good) return;
  told_started(started, passed);
  told_exited(exited);
}

// What an earlier server had started and nobody tells of ended with the sandbox that it ran in.
void GuestSandbox::all_told() {
  for (const auto& [id, process] : processes_) {
    if (!process->heard_of()) process->lost();
  }
  std::erase_if(shells_, [](const auto& entry) {
    const bool gone = entry.second->to_be_told();
    if (gone) entry.second->lost();
    return gone;
  });
  forget_old();  // not before: what has streams that are still open is known only now
  changed_.notify_all();
}

void GuestSandbox::told_exited(Reader& in) {
  guest::Exited exited;
  if (!guest::Exited::decode(in, exited)) return;
  const auto found = processes_.find(exited.id);
  if (found == processes_.end()) return;
  const std::shared_ptr<GuestProcess> process = found->second;
  process->exited(exited);
  // Who waits has his answer first, and then those their word who are told of its end: files take
  // longer than the rest of it.
  auto note = [self = weak_from_this(), process, exited] {
    if (const auto sandbox = self.lock()) sandbox->note_exit(process, exited);
  };
  asio::post(executor_, [executor = executor_, note] { asio::post(executor, note); });
}

// The guest tells the next server again until it is told to forget: nothing is lost in between.
void GuestSandbox::note_exit(const std::shared_ptr<GuestProcess>& process,
                             const guest::Exited& exited) {
  if (!alive_) return;
  forget_old();                // before the log is written: it is told there
  log_exit(exited, *process);  // before the guest is told to forget it
  if (process->output_waits()) {
    store_later(process);
  } else {
    process->noted();
  }
}

// Until then it is in the guest's pipe, and the next server would find it there.
void GuestSandbox::store_later(const std::shared_ptr<GuestProcess>& process) {
  auto timer = std::make_shared<asio::steady_timer>(executor_, kStoreDelay);
  timer->async_wait([self = weak_from_this(), process, timer](boost::system::error_code) {
    const auto sandbox = self.lock();
    if (!sandbox || sandbox->find_process(process->id()) != process) return;
    process->store_output();
    process->noted();  // not before: both are told in one word
    sandbox->forget_old();
    if (sandbox->alive_ && !sandbox->forgotten_.empty()) sandbox->append_to_log({});
  });
}

std::shared_ptr<GuestProcess> GuestSandbox::make_process(std::uint32_t id, Earlier earlier) {
  make_dir();
  auto tell = [self = weak_from_this()](std::string message) {
    if (auto sandbox = self.lock()) sandbox->tell(std::move(message));
  };
  const std::string path = settings_.output_dir + "/" + std::to_string(id);
  unended_.push_back(id);
  return std::make_shared<GuestProcess>(executor_, id, path, settings_.output, std::move(tell),
                                        earlier);
}

// What an earlier server had stored can still be read.
void GuestSandbox::load_earlier() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator{settings_.output_dir, ignored}) {
    std::uint32_t number = 0;
    const std::string name = entry.path().stem();
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc{} || number == 0) continue;
    next_ = std::max(next_, number + 1);
    std::shared_ptr<GuestProcess>& process = processes_[number];
    if (!process) process = make_process(number, Earlier::possible);
  }
  restore_exits();
}

// The oldest finished ones go when there are too many or they hold too much; and of those whose
// streams something in the background still holds, only the newest are followed.
void GuestSandbox::forget_old() {
  std::uint64_t stored = 0;
  std::size_t lingering = 0;
  for (const auto& [id, process] : processes_) {
    stored += process->stored();
    lingering += process->lingers() ? 1 : 0;
  }
  const std::uint64_t most = settings_.output.stored.count * kStoredStreams;
  for (auto at = processes_.begin(); at != processes_.end();) {
    const auto current = at++;
    GuestProcess& process = *current->second;
    if (lingering > kFollowed && process.lingers()) {
      --lingering;
      process.stop_following();
    }
    const bool too_many = processes_.size() > kKeptProcesses || stored > most;
    if (!too_many || !process.over() || processes_.size() == 1) continue;
    stored -= process.stored();
    forget(process);
    processes_.erase(current);
  }
}

awaitable<bool> GuestSandbox::wait_ready(Milliseconds limit) {
  const auto self = shared_from_this();
  auto known = [this] { return !alive_ || (ready_ && to_be_told_ == 0); };
  const bool answered = co_await changed_.until(known, limit);
  if (failure_) {
    throw Error{Code::internal, "the sandbox could not be set up: " + failure_->step};
  }
  if (!alive_) throw Error{Code::unavailable, "the sandbox ended while it was set up"};
  co_return answered;
}

awaitable<std::shared_ptr<sandbox::Process>> GuestSandbox::start(sandbox::Command command) {
  const auto self = shared_from_this();
  validate(command);
  if (!alive_) throw Error{Code::unavailable, "the sandbox is gone"};
  commanded_ = true;
  sandbox::ProcessInfo info = describe(command);
  guest::Start start = to_start(next_++, command);
  start.note = to_note(info);
  start.ahead_ms = static_cast<std::uint32_t>(settings_.ahead.count());
  Writer out;
  start.encode(out);
  auto process = make_process(start.id, Earlier::none);
  process->set_info(std::move(info));
  processes_[start.id] = process;
  tell(out.take());
  const bool answered = co_await process->wait_started(kAnswer);
  if (!answered) {
    processes_.erase(process->id());
    process->kill();
    throw Error{Code::unavailable, "the sandbox does not answer"};
  }
  process->push_input(std::move(command.input));
  co_return process;
}

void GuestSandbox::make_dir() {
  if (std::exchange(dir_made_, true)) return;
  std::filesystem::create_directories(settings_.output_dir);
}

void GuestSandbox::expect_command() {
  expects_command_ = true;
  // Its first command need not wait for that.
  make_dir();
  append_to_log({});
  const std::string spare = spare_file(settings_.output_dir);
  const os::Fd made{::open(spare.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  const bool any = settings_.ahead.count() > 0;
  ask_for_shell(any ? Milliseconds::max() : Milliseconds{0});
}

// Who has it now commands something soon, or the shell has waited for long enough.
void GuestSandbox::set_label(std::string label) {
  label_ = std::move(label);
  if (!std::exchange(expects_command_, false)) return;
  commanded_ = false;
  asio::post(executor_, [self = weak_from_this()] {
    const auto sandbox = self.lock();
    if (sandbox && !sandbox->commanded_) sandbox->ask_for_shell(sandbox->settings_.ahead);
  });
}

void GuestSandbox::ask_for_shell(Milliseconds wait) {
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  Writer out;
  guest::Expect expect;
  expect.ahead_ms = static_cast<std::uint32_t>(std::min<std::int64_t>(wait.count(), most));
  expect.cwd = sandbox::Command{}.cwd;
  expect.env = environment_of(sandbox::Command{});
  expect.encode(out);
  tell(out.take());
}

std::shared_ptr<sandbox::Process> GuestSandbox::find_process(std::uint32_t id) const {
  const auto found = processes_.find(id);
  return found == processes_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<sandbox::Process>> GuestSandbox::processes() const {
  std::vector<std::shared_ptr<sandbox::Process>> list;
  list.reserve(processes_.size());
  for (const auto& [id, process] : processes_) list.push_back(process);
  return list;
}

// Most that are kept have ended: they need not be looked at for each command.
std::vector<std::shared_ptr<sandbox::Process>> GuestSandbox::running() const {
  std::vector<std::shared_ptr<sandbox::Process>> list;
  std::erase_if(unended_, [&](std::uint32_t id) {
    const auto process = find_process(id);
    const bool runs = process && !process->exit();
    if (runs) list.push_back(process);
    return !runs;
  });
  return list;
}

std::shared_ptr<GuestProcess> GuestSandbox::find_guest_process(std::uint32_t id) const {
  const auto found = processes_.find(id);
  return found == processes_.end() ? nullptr : found->second;
}

void GuestSandbox::begin_again() {
  ready_ = false;
  to_be_told_ = 0;
  for (auto at = processes_.begin(); at != processes_.end();) {
    const auto current = at++;
    if (!current->second->start_interrupted()) continue;
    processes_.erase(current);
  }
  std::erase_if(shells_, [](const auto& entry) { return entry.second->begin_again(); });
}

void GuestSandbox::close() {
  if (!alive_) return;
  alive_ = false;
  disconnect();
  for (const auto& [id, process] : processes_) process->lost();
  for (const auto& [id, shell] : shells_) shell->lost();
  shells_.clear();
  changed_.notify_all();
}

void GuestSandbox::detach() {
  if (!alive_) return;
  alive_ = false;
  disconnect();
  for (const auto& [id, process] : processes_) process->detach();
  changed_.notify_all();
}

void GuestSandbox::remove_files() const { os::remove_tree(settings_.output_dir); }

}  // namespace tb::box

// SPDX-License-Identifier: Apache-2.0
#include "box/sandbox.h"

#include <fcntl.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "box/command.h"

namespace tb::box {
namespace {

constexpr std::size_t kKeptProcesses = 64;   // finished ones whose output can still be read
constexpr std::size_t kFollowed = 16;        // ended commands with output from the background
constexpr std::uint64_t kStoredStreams = 4;  // times the limit of a stream, for a whole session
constexpr unsigned kMaxLogged = 1024;        // exits, before the log is written anew
constexpr auto kAnswer = 15s;                // for PID 1 to start a command

constexpr std::uint8_t kNote = 128;  // in the log of exits: what the process was started as

std::string note_record(std::uint32_t id, const sandbox::ProcessInfo& info) {
  Writer note;
  note.u8(kNote);
  note.u32(id);
  note.bytes(to_note(info));
  Writer out;
  out.bytes(note.view());
  return out.take();
}

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
  if (!process) process = make_process(started.id);
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
  changed_.notify_all();
}

void GuestSandbox::told_exited(Reader& in) {
  guest::Exited exited;
  if (!guest::Exited::decode(in, exited)) return;
  const auto found = processes_.find(exited.id);
  if (found == processes_.end()) return;
  const std::shared_ptr<GuestProcess> process = found->second;
  process->exited(exited);
  // Who waits has his answer first: files take longer than the rest of it.
  asio::post(executor_, [self = weak_from_this(), process, exited] {
    if (const auto sandbox = self.lock()) sandbox->note_exit(*process, exited);
  });
}

// The guest tells the next server again until it is told to forget: nothing is lost in between.
void GuestSandbox::note_exit(GuestProcess& process, const guest::Exited& exited) {
  if (!alive_) return;
  if (process.stored() == 0) process.make_file();
  log_exit(exited, process.info());  // before the guest is told to forget it
  process.noted();
  forget_old();
}

std::shared_ptr<GuestProcess> GuestSandbox::make_process(std::uint32_t id) {
  if (!dir_made_) {
    std::filesystem::create_directories(settings_.output_dir);
    dir_made_ = true;
  }
  auto tell = [self = weak_from_this()](std::string message) {
    if (auto sandbox = self.lock()) sandbox->tell(std::move(message));
  };
  const std::string path = settings_.output_dir + "/" + std::to_string(id);
  return std::make_shared<GuestProcess>(executor_, id, path, settings_.output, std::move(tell));
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
    if (!process) process = make_process(number);
  }
  restore_exits();
}

void GuestSandbox::log_exit(const guest::Exited& exited, const sandbox::ProcessInfo& info) {
  Writer record;
  exited.encode(record);
  Writer out;
  out.bytes(record.view());
  std::string bytes = out.take() + note_record(exited.id, info);
  recent_exits_.push_back({exited.id, bytes});
  if (recent_exits_.size() > kKeptProcesses) recent_exits_.pop_front();
  append_to_log(bytes);
}

void GuestSandbox::append_to_log(const std::string& bytes) {
  const std::string path = settings_.output_dir + "/exits";
  if (++logged_ > kMaxLogged) return rewrite_log(path);
  os::Fd file{::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)};
  // A full disk costs the memory of it after a restart, not the answer.
  if (file) (void)!::write(file.get(), bytes.data(), bytes.size());
}

// Of several notes the last one counts.
void GuestSandbox::notified(std::uint32_t process) {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return;
  sandbox::ProcessInfo info = found->second->info();
  info.notify_url.clear();
  const std::string note = note_record(process, info);
  found->second->set_info(std::move(info));
  for (LoggedExit& logged : recent_exits_) {
    if (logged.id == process) logged.bytes += note;
  }
  if (dir_made_ && alive_) append_to_log(note);
}

// A log that only grows would fill the disk one command at a time.
void GuestSandbox::rewrite_log(const std::string& path) {
  std::string all;
  for (const LoggedExit& logged : recent_exits_) all += logged.bytes;
  logged_ = static_cast<unsigned>(recent_exits_.size());
  try {
    os::replace_file(path, all, 0600);
  } catch (const Error&) {
    // As above.
  }
}

// What the log has is in it when it is written anew, however often we begin.
void GuestSandbox::remember_logged(std::uint32_t id, std::string_view record, bool exit) {
  Writer out;
  out.bytes(record);
  if (exit) {
    ++logged_;
    recent_exits_.push_back({id, out.take()});
    if (recent_exits_.size() > kKeptProcesses) recent_exits_.pop_front();
    return;
  }
  for (LoggedExit& logged : recent_exits_) {
    if (logged.id == id) logged.bytes += out.view();
  }
}

void GuestSandbox::restore_exits() {
  const std::string path = settings_.output_dir + "/exits";
  if (::access(path.c_str(), R_OK) != 0) return;
  const std::string text = os::read_file(path, 16 << 20);
  Reader in{text};
  while (!text.empty() && in.ok() && !in.done()) {
    const std::string_view record = in.view();
    Reader fields{record};
    guest::Exited exited;
    if (fields.u8() == kNote) {
      const std::uint32_t id = fields.u32();
      remember_logged(id, record, false);
      const auto found = processes_.find(id);
      if (found != processes_.end()) found->second->restore_info(fields.view());
      continue;
    }
    if (!guest::Exited::decode(fields, exited)) continue;
    remember_logged(exited.id, record, true);
    next_ = std::max(next_, exited.id + 1);
    const auto found = processes_.find(exited.id);
    if (found != processes_.end()) found->second->restore(exited);
  }
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
    process.remove_files();
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
  sandbox::ProcessInfo info = describe(command);
  guest::Start start = to_start(next_++, command);
  start.note = to_note(info);
  start.ahead_ms = static_cast<std::uint32_t>(settings_.ahead.count());
  Writer out;
  start.encode(out);
  auto process = make_process(start.id);
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

// SPDX-License-Identifier: Apache-2.0
// The log of exits (docs/formats/guest.md): what the next server knows of processes that are over.
#include <fcntl.h>

#include "box/command.h"
#include "box/sandbox.h"

namespace tb::box {
namespace {

constexpr unsigned kMaxLogged = 1024;  // exits, before the log is written anew

// In the log of exits, beside these.
constexpr std::uint8_t kNote = 128;       // what the process was started as
constexpr std::uint8_t kUnstored = 129;   // it ends without a file: a silent one, or one to come
constexpr std::uint8_t kForgotten = 130;  // it is not known any more

std::string record_of(std::uint8_t kind, std::uint32_t id, const std::string* note = nullptr) {
  Writer record;
  record.u8(kind);
  record.u32(id);
  if (note) record.bytes(*note);
  Writer out;
  out.bytes(record.view());
  return out.take();
}

std::string note_record(std::uint32_t id, const sandbox::ProcessInfo& info) {
  const std::string note = to_note(info);
  return record_of(kNote, id, &note);
}

}  // namespace

void GuestSandbox::log_exit(const guest::Exited& exited, const GuestProcess& process) {
  Writer record;
  exited.encode(record);
  Writer out;
  out.bytes(record.view());
  std::string bytes = process.stored() == 0 ? record_of(kUnstored, exited.id) : std::string{};
  bytes += out.take() + note_record(exited.id, process.info());
  recent_exits_.push_back({exited.id, bytes});
  if (recent_exits_.size() > kKeptProcesses) recent_exits_.pop_front();
  ++logged_;
  append_to_log(bytes);
}

void GuestSandbox::append_to_log(const std::string& bytes) {
  const std::string path = settings_.output_dir + "/exits";
  const std::string all = std::exchange(forgotten_, {}) + bytes;
  if (logged_ > kMaxLogged) return rewrite_log(path);
  os::Fd file{::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)};
  // A full disk costs the memory of it after a restart, not the answer. What follows half a record
  // could not be read: the next one begins the log anew.
  const bool whole =
      file && ::write(file.get(), all.data(), all.size()) == static_cast<ssize_t>(all.size());
  if (!whole) logged_ = kMaxLogged + 1;
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
    logged_ = kMaxLogged + 1;  // as above
  }
}

// What the log has is in it when it is written anew, however often we begin.
void GuestSandbox::remember_logged(std::uint32_t id, std::string_view record, bool begins) {
  Writer out;
  out.bytes(record);
  for (LoggedExit& logged : recent_exits_) {
    if (logged.id != id) continue;
    logged.bytes += out.view();
    return;
  }
  if (!begins) return;
  ++logged_;
  recent_exits_.push_back({id, out.take()});
  if (recent_exits_.size() > kKeptProcesses) recent_exits_.pop_front();
}

void GuestSandbox::restore_exits() {
  const std::string path = settings_.output_dir + "/exits";
  if (::access(path.c_str(), R_OK) != 0) return;
  const std::string text = os::read_file(path, 16 << 20);
  Reader in{text};
  while (!text.empty() && in.ok() && !in.done()) {
    restore_record(in.view());
  }
}

void GuestSandbox::restore_record(std::string_view record) {
  Reader fields{record};
  const std::uint8_t kind = fields.u8();
  guest::Exited exited;
  if (kind == kUnstored) {
    const std::uint32_t id = fields.u32();
    next_ = std::max(next_, id + 1);
    std::shared_ptr<GuestProcess>& process = processes_[id];
    if (!process) process = make_process(id, Earlier::none);
    remember_logged(id, record, true);
  } else if (kind == kForgotten) {
    const std::uint32_t id = fields.u32();
    next_ = std::max(next_, id + 1);
    processes_.erase(id);
    std::erase_if(recent_exits_, [id](const LoggedExit& logged) { return logged.id == id; });
  } else if (kind == kNote) {
    const std::uint32_t id = fields.u32();
    remember_logged(id, record, false);
    const auto found = processes_.find(id);
    if (found != processes_.end()) found->second->restore_info(fields.view());
  } else if (guest::Exited::decode(fields, exited)) {
    remember_logged(exited.id, record, true);
    next_ = std::max(next_, exited.id + 1);
    const auto found = processes_.find(exited.id);
    if (found != processes_.end()) found->second->restore(exited);
  }
}

// The log names it until it is written anew: the next exit says there that it is gone.
void GuestSandbox::forget(const GuestProcess& process) {
  process.remove_files();
  forgotten_ += record_of(kForgotten, process.id());
  std::erase_if(recent_exits_, [&](const LoggedExit& logged) { return logged.id == process.id(); });
}

}  // namespace tb::box

// SPDX-License-Identifier: Apache-2.0
// Uploads of the seed dialect: multipart, streamed into a file that gets its name at the end, so
// that what breaks off leaves nothing.
#include <boost/json.hpp>

#include "api/errors.h"
#include "api/files.h"
#include "api/paths.h"
#include "base/spool.h"
#include "base/utf8.h"
#include "http/multipart.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr Bytes kMaxField = 8_KiB;
// So much beyond the limit is still read, so that the refusal can name the file's size and the
// client, which sends everything before it listens, hears it.
constexpr Bytes kReadOn = 64_MiB;

class Upload {
 public:
  Upload(Service& service, Call& call) : service_(service), call_(call), spool_(*service.spools) {}

  awaitable<http::Response> run() {
    const auto began = std::chrono::steady_clock::now();
    co_await read_parts();
    if (!id_ || id_->empty()) throw http::HttpError{400, "session_id required"};
    if (!has_file_) throw http::HttpError{400, "No file provided"};
    const std::string filename = field_name_.value_or("").empty() ? part_name_ : *field_name_;
    const std::string path = workspace_path(filename);
    if (!file_) co_await move_spooled();
    sandbox::FileInfo info = co_await commit(path, filename);
    service_.sessions.events().file_uploaded(session_->who(call_.request_id), info.size,
                                             since(began));
    json::object answer{{"status", "uploaded"},
                        {"session_id", session_->id},
                        {"filename", path},
                        {"path", std::string{kWorkspace} + "/" + path},
                        {"size_bytes", info.size.count}};
    co_return http::json_response(200, json::serialize(answer));
  }

 private:
  awaitable<void> read_parts() {
    const auto type = call_.exchange.request().headers.find("Content-Type");
    const auto boundary = http::find_boundary(type.value_or(""));
    if (!boundary) throw http::HttpError{400, "session_id required"};
    http::MultipartReader reader{call_.exchange, *boundary};
    while (std::optional<http::Part> part = co_await reader.next_part()) {
      if (part->name == "file" && part->filename && !part->filename->empty()) {
        if (has_file_) throw http::HttpError{400, "Only one file can be uploaded at a time"};
        has_file_ = true;
        part_name_ = std::move(*part->filename);
        co_await receive(reader);
      } else {
        // A field that nobody knows has its limit too.
        std::string text = co_await reader.read_text(kMaxField);
        if (part->name == "session_id") set_once(id_, text, "session_id");
        if (part->name == "filename") set_once(field_name_, text, "filename");
      }
    }
  }

  // Whoever looks at the other one of two would see another session.
  static void set_once(std::optional<std::string>& field, std::string& text, const char* name) {
    if (field) throw http::HttpError{400, std::string{"The form has two fields "} + name};
    field = std::move(text);
  }

  // Into the sandbox when the session is known already, as all known clients have it.
  awaitable<void> receive(http::MultipartReader& reader) {
    const bool known = id_ && !id_->empty();
    if (known) co_await open_in_sandbox();
    for (;;) {
      const std::string_view piece = co_await reader.read();
      if (piece.empty()) break;
      size_ = size_ + Bytes{piece.size()};
      check_file_size();
      if (full_ || size_ > service_.file_limits.file) continue;  // refused at its end
      if (known) {
        co_await store(piece);
      } else {
        co_await spool(piece);
      }
    }
    const bool large = size_ > service_.file_limits.file;
    if (large && file_) co_await file_->drop();
    if (large) refuse_size(size_);
    if (full_) refuse_workspace();
  }

  // At once when it is hopeless, else at the end of the file.
  void check_file_size() const {
    if (size_ <= service_.file_limits.file) return;
    const auto length = call_.exchange.body_length();
    const Bytes whole = length ? Bytes{*length} : size_;
    if (!length || whole > service_.file_limits.file + kReadOn) refuse_size(whole);
  }

  [[noreturn]] void refuse_size(Bytes size) const {
    count_limit(session::Limit::file_size);
    throw Refusal{413,
                  "File size exceeds maximum allowed size",
                  {{"max_size_mb", mebibytes(service_.file_limits.file)},
                   {"uploaded_size_mb", mebibytes(size)}}};
  }

  void count_limit(session::Limit limit) const {
    session::Who who{.tenant = call_.principal.tenant};
    if (session_) who = session_->who(call_.request_id);
    service_.sessions.events().resource_limit_exceeded(who, limit);
  }

  awaitable<void> open_in_sandbox() {
    session_ = session_of(service_, call_, *id_);
    use_.emplace(co_await service_.sessions.use(session_));
    sandbox::Files& files = use_->sandbox().files();
    std::optional<sandbox::FileError> failure;
    try {
      file_ = co_await files.create();
    } catch (const sandbox::FileError& error) {
      failure = error;
    }
    full_ = failure && failure->problem() == sandbox::FileProblem::full;
    if (failure && !full_) refuse_file(*failure, to_utf8(part_name_));
    if (full_) {
      used_ = co_await files.usage();
    } else {
      used_ = file_->used();
    }
    if (used_.files >= service_.file_limits.count) refuse_count();
  }

  [[noreturn]] void refuse_count() const {
    count_limit(session::Limit::file_count);
    throw Refusal{507,
                  "Maximum file count exceeded",
                  {{"max_files", service_.file_limits.count}, {"current_files", used_.files}}};
  }

  // Of a file that does not fit nothing is kept while the rest of it arrives.
  awaitable<void> store(std::string_view piece) {
    full_ = full_ || used_.bytes + size_ > workspace_limit(service_, *session_);
    try {
      if (!full_) co_await file_->write(piece);
    } catch (const sandbox::FileError& error) {
      if (error.problem() != sandbox::FileProblem::full) throw;
      full_ = true;
    }
    if (full_ && file_) co_await file_->drop();
    if (full_) file_.reset();
  }

  [[noreturn]] void refuse_workspace() const {
    count_limit(session::Limit::workspace_size);
    throw Refusal{507,
                  "Workspace size limit exceeded",
                  {{"max_workspace_mb", mebibytes(workspace_limit(service_, *session_))},
                   {"current_workspace_mb", mebibytes(used_.bytes)},
                   {"file_size_mb", mebibytes(size_)}}};
  }

  // A client that names the session after the file: the bytes wait here until then.
  awaitable<void> spool(std::string_view piece) {
    const bool added = co_await spool_.add(piece);
    if (added) co_return;
    throw Error{Code::exhausted, "The server has no room for uploads that name their session last"};
  }

  awaitable<void> move_spooled() {
    const Bytes whole = std::exchange(size_, Bytes{});
    co_await open_in_sandbox();
    std::string buffer(256 << 10, '\0');
    while (!full_ && size_ < whole) {
      const std::size_t got = co_await spool_.read(size_.count, buffer);
      if (got == 0) throw Error{Code::internal, "read a spooled upload"};
      size_ = size_ + Bytes{got};
      const std::string_view piece{buffer.data(), got};
      co_await store(piece);
    }
    size_ = whole;
    if (full_) refuse_workspace();
  }

  awaitable<sandbox::FileInfo> commit(const std::string& path, const std::string& filename) {
    std::optional<sandbox::FileError> failure;
    try {
      co_return co_await file_->commit(path);
    } catch (const sandbox::FileError& error) {
      failure = error;
    }
    if (failure->problem() == sandbox::FileProblem::full) refuse_workspace();
    if (failure->problem() == sandbox::FileProblem::not_found) {
      // To clients a 404 says that the session is gone.
      throw Error{Code::unavailable, "The directory was removed meanwhile; try again"};
    }
    refuse_file(*failure, filename);
  }

  Service& service_;
  Call& call_;
  std::optional<std::string> id_;
  std::optional<std::string> field_name_;  // the form field, which wins
  std::string part_name_;
  bool has_file_ = false;
  bool full_ = false;  // the workspace
  std::shared_ptr<session::Session> session_;
  std::optional<session::Use> use_;
  std::unique_ptr<sandbox::NewFile> file_;
  Spool spool_;
  sandbox::Usage used_;
  Bytes size_;
};

awaitable<http::Response> upload(Service& service, Call& call) {
  Upload upload{service, call};
  co_return co_await upload.run();
}

}  // namespace

void add_upload_routes(Router& router, Service& service) {
  router.add("POST", "/upload_file", [&service](Call& call) { return upload(service, call); });
}

}  // namespace tb::api

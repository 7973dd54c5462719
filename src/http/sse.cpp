// SPDX-License-Identifier: Apache-2.0
#include "http/sse.h"

#include <algorithm>

#include "base/error.h"

namespace tb::http {
namespace {

void append_field(std::string& out, std::string_view field, std::string_view value) {
  if (value.find_first_of(std::string_view{"\r\n\0", 3}) != value.npos) {
    throw Error{Code::internal, "an event whose name or id has more than one line"};
  }
  if (!value.empty()) out.append(field).append(": ").append(value).append("\n");
}

}  // namespace

std::string format_event(std::string_view name, std::string_view id, std::string_view data) {
  std::string out;
  out.reserve(name.size() + id.size() + data.size() + 32);
  append_field(out, "event", name);
  append_field(out, "id", id);
  // Each line is a field; a reader puts LF between them. An event without data is not delivered,
  // so even an empty one has a line.
  // Most have one, and a search for either character is slow.
  const bool one = data.find('\n') == data.npos && data.find('\r') == data.npos;
  for (std::size_t start = 0;;) {
    const std::size_t end =
        one ? data.size() : std::min(data.find_first_of("\r\n", start), data.size());
    out.append("data: ").append(data.substr(start, end - start)).append("\n");
    if (end == data.size()) break;
    start = end + (data.substr(end, 2) == "\r\n" ? 2 : 1);
  }
  return out += '\n';
}

std::optional<std::string> parse_last_event_id(const Request& request) {
  const std::size_t count = request.headers.count("Last-Event-ID");
  if (count > 1) throw HttpError{400, "Last-Event-ID was sent more than once"};
  if (count == 1) return std::string{*request.headers.find("Last-Event-ID")};
  if (const std::string* value = request.find_query("last_event_id")) return *value;
  return std::nullopt;
}

awaitable<void> EventStream::begin() {
  Response head;
  head.content_type = "text/event-stream";
  head.headers.push_back({"Cache-Control", "no-cache"});
  head.headers.push_back({"X-Accel-Buffering", "no"});
  co_await exchange_.begin(std::move(head), std::nullopt);
}

awaitable<void> EventStream::send(std::string_view name, std::string_view id,
                                  std::string_view data) {
  const std::string event = format_event(name, id, data);
  co_await exchange_.write(event);
}

awaitable<void> EventStream::comment() {
  const std::string_view line = ":\n\n";
  co_await exchange_.write(line);
}

awaitable<void> EventStream::end() { return exchange_.end(); }

}  // namespace tb::http

// SPDX-License-Identifier: Apache-2.0
#include "http/multipart.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "http/chars.h"
#include "http/content_disposition.h"
#include "http/parameters.h"

namespace tb::http {
namespace {

using Event = MultipartParser::Event;

constexpr std::string_view kType = "multipart/form-data";
constexpr CharTable kBoundaryChars = make_table("'()+_,-./:=? ", true);
constexpr std::size_t kMaxBoundary = 70;
constexpr std::size_t kLeastBuffer = 4 << 10;
constexpr std::size_t kBuffer = 256 << 10;
constexpr std::string_view kHeadEnd = "\r\n\r\n";

[[noreturn]] void bad(const char* text) { throw HttpError{400, text}; }

bool is_boundary(std::string_view text) {
  return !text.empty() && text.size() <= kMaxBoundary && all_in(kBoundaryChars, text) &&
         text.back() != ' ';
}

void read_field(std::string_view line, Part& part, bool& disposed) {
  const std::size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  if (colon == line.npos || name.empty() || !all_in(kTokenChars, name)) {
    bad("A part has a malformed head");
  }
  const std::string_view value = trim(line.substr(colon + 1));
  if (!all_in(kValueChars, value)) bad("A part has a malformed head");
  if (equal_ignoring_case(name, "content-disposition")) {
    if (disposed) bad("A part has more than one Content-Disposition");
    disposed = true;
    FormDisposition disposition = parse_form_disposition(value);
    part.name = std::move(disposition.name);
    part.filename = std::move(disposition.filename);
  } else if (equal_ignoring_case(name, "content-type")) {
    part.content_type = value;
  } else if (equal_ignoring_case(name, "content-transfer-encoding")) {
    // RFC 7578 4.7 ended these; storing the encoded text would be a silent surprise.
    const bool plain = equal_ignoring_case(value, "binary") || equal_ignoring_case(value, "8bit") ||
                       equal_ignoring_case(value, "7bit");
    if (!plain) bad("A part has a Content-Transfer-Encoding that is not supported");
  }
}

// `head` is lines, each with its CR LF.
Part parse_part_head(std::string_view head) {
  Part part;
  bool disposed = false;
  while (!head.empty()) {
    const std::size_t end = head.find("\r\n");
    read_field(head.substr(0, end), part, disposed);
    head.remove_prefix(end + 2);
  }
  if (!disposed) bad("A part has no Content-Disposition");
  return part;
}

}  // namespace

std::optional<std::string> find_boundary(std::string_view content_type) {
  const std::size_t end = content_type.find(';');
  if (!equal_ignoring_case(trim(content_type.substr(0, end)), kType)) return std::nullopt;
  std::string_view rest = content_type.substr(std::min(end, content_type.size()));
  std::optional<std::string> boundary;
  while (const auto parameter = take_parameter(rest, "The Content-Type is malformed")) {
    if (!equal_ignoring_case(parameter->name, "boundary")) continue;
    if (boundary) bad("The Content-Type has more than one boundary");
    boundary = parameter->value;  // No good boundary has an escape.
  }
  if (!boundary) bad("The multipart body has no boundary");
  if (!is_boundary(*boundary)) bad("The multipart boundary is not valid");
  return boundary;
}

MultipartParser::MultipartParser(std::string_view boundary)
    : delimiter_("\r\n--" + std::string{boundary}) {
  if (!is_boundary(boundary)) bad("The multipart boundary is not valid");
}

Event MultipartParser::next(std::string_view& input) {
  // A delimiter behind data is an event of its own, even at the end of the input.
  while (!input.empty() || matched_ == delimiter_.size()) {
    if (const auto event = step(input)) return *event;
  }
  return state_ == State::end ? Event::end : Event::more;
}

void MultipartParser::finish() const {
  if (state_ != State::end) bad("The multipart body was cut short");
}

std::optional<Event> MultipartParser::step(std::string_view& input) {
  switch (state_) {
    case State::preamble:
    case State::data: return find_delimiter(input);
    case State::head: return read_head(input);
    case State::end:
      count_waste(input.size());
      input = {};
      return std::nullopt;
    default:
      read_delimiter_line(input.front());
      input.remove_prefix(1);
      return std::nullopt;
  }
}

// A boundary has no CR, so bytes that match the delimiter's beginning and then fail are data as a
// whole, and none of them but the first begins another: one pass is enough, and what was matched
// at the end of the input needs no copy, since the delimiter itself is one.
std::optional<Event> MultipartParser::find_delimiter(std::string_view& input) {
  if (matched_ != 0) return match_on(input);
  const char* const begin = input.data();
  const char* const end = begin + input.size();
  const char* at = begin;
  for (;;) {
    at = static_cast<const char*>(std::memchr(at, '\r', static_cast<std::size_t>(end - at)));
    if (at == nullptr) break;
    const std::size_t seen = std::min(delimiter_.size(), static_cast<std::size_t>(end - at));
    if (std::memcmp(at, delimiter_.data(), seen) == 0) {
      matched_ = seen;
      break;
    }
    // Runs of CR would cost a call each.
    do {
      ++at;
    } while (at + 1 < end && at[0] == '\r' && at[1] == '\r');
  }
  const auto size = at == nullptr ? input.size() : static_cast<std::size_t>(at - begin);
  const std::string_view data = input.substr(0, size);
  input.remove_prefix(size + matched_);
  if (!data.empty()) return give(data);
  return matched_ == delimiter_.size() ? end_part() : std::nullopt;
}

// The input before this one ended with a part of the delimiter, or with all of it.
std::optional<Event> MultipartParser::match_on(std::string_view& input) {
  const std::string_view rest = std::string_view{delimiter_}.substr(matched_);
  const std::size_t most = std::min(rest.size(), input.size());
  const auto same = static_cast<std::size_t>(
      std::mismatch(rest.begin(), rest.begin() + most, input.begin()).first - rest.begin());
  matched_ += same;
  input.remove_prefix(same);
  if (matched_ == delimiter_.size()) return end_part();
  if (same == most) return std::nullopt;
  const std::string_view seen{delimiter_.data(), std::exchange(matched_, 0)};
  return give(seen.substr(std::exchange(borrowed_, 0)));
}

std::optional<Event> MultipartParser::end_part() {
  const bool first = state_ == State::preamble;
  state_ = State::delimiter;
  matched_ = borrowed_ = 0;
  return first ? std::nullopt : std::optional{Event::part_end};
}

std::optional<Event> MultipartParser::give(std::string_view data) {
  if (data.empty()) return std::nullopt;
  if (state_ == State::preamble) {
    count_waste(data.size());
    return std::nullopt;
  }
  data_ = data;
  return Event::data;
}

// Clients send none of these bytes; a few are put up with.
void MultipartParser::count_waste(std::size_t size) {
  wasted_ += size;
  if (wasted_ > kMaxPartHead) bad("The multipart body has too many bytes outside of its parts");
}

// What follows a boundary: two dashes, or spaces and the end of the line.
void MultipartParser::read_delimiter_line(char c) {
  const auto expect = [&](char wanted, State next) {
    if (c != wanted) bad("The multipart body has a malformed boundary line");
    state_ = next;
  };
  switch (state_) {
    case State::dash: return expect('-', State::end);
    case State::line_end:
      expect('\n', State::head);
      head_ = "\r\n";  // So that an empty head ends like any other.
      return;
    default: break;
  }
  if (c == '-' && state_ == State::delimiter) {
    state_ = State::dash;
  } else if (c == ' ' || c == '\t') {
    state_ = State::padding;
    count_waste(1);
  } else {
    expect('\r', State::line_end);
  }
}

std::optional<Event> MultipartParser::read_head(std::string_view& input) {
  const std::size_t held = head_.size();
  head_ += input.substr(0, kMaxPartHead + kHeadEnd.size() - held);
  const std::size_t found = head_.find(kHeadEnd, held < 4 ? 0 : held - 3);
  if (found == head_.npos) {
    input.remove_prefix(head_.size() - held);
    if (head_.size() >= kMaxPartHead + kHeadEnd.size()) bad("The head of a part is too large");
    return std::nullopt;
  }
  input.remove_prefix(found + kHeadEnd.size() - held);
  if (++parts_ > kMaxParts) bad("The multipart body has too many parts");
  part_ = parse_part_head(std::string_view{head_}.substr(2, found));
  state_ = State::data;
  matched_ = borrowed_ = 2;
  return Event::part;
}

MultipartReader::MultipartReader(Exchange& exchange, std::string_view boundary)
    : exchange_(exchange),
      parser_(boundary),
      size_(std::clamp<std::uint64_t>(exchange.body_length().value_or(kBuffer), kLeastBuffer,
                                      kBuffer)),
      buffer_(std::make_unique_for_overwrite<char[]>(size_)) {}

awaitable<Event> MultipartReader::next_event() {
  for (;;) {
    const Event event = parser_.next(input_);
    const bool used_up = event == Event::more || event == Event::end;
    if (!used_up) co_return event;
    const std::span<char> room{buffer_.get(), size_};
    const std::size_t got = co_await exchange_.read_some(room);
    if (got == 0) break;
    input_ = {buffer_.get(), got};
  }
  parser_.finish();
  co_return Event::end;
}

awaitable<std::optional<Part>> MultipartReader::next_part() {
  for (;;) {
    const Event event = co_await next_event();
    in_part_ = event == Event::part || event == Event::data;
    if (event == Event::end) co_return std::nullopt;
    if (event == Event::part) co_return std::move(parser_.part());
  }
}

awaitable<std::string_view> MultipartReader::read() {
  if (!in_part_) co_return std::string_view{};
  const Event event = co_await next_event();
  in_part_ = event == Event::data;
  co_return in_part_ ? parser_.data() : std::string_view{};
}

awaitable<std::string> MultipartReader::read_text(Bytes limit) {
  std::string text;
  for (;;) {
    const std::string_view piece = co_await read();
    if (piece.empty()) co_return text;
    if (piece.size() > limit.count - text.size()) {
      throw HttpError{413, "A field of the form is too large"};
    }
    text += piece;
  }
}

}  // namespace tb::http

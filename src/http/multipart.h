// SPDX-License-Identifier: Apache-2.0
// multipart/form-data (RFC 7578, RFC 2046), read as it arrives: a part of any size needs no
// memory. Strict: lines end with CR LF, and a part has one Content-Disposition with a name.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "http/exchange.h"

namespace tb::http {

inline constexpr std::size_t kMaxPartHead = 8 << 10;
inline constexpr int kMaxParts = 64;

// The head of a part. The names are the client's bytes: see content_disposition.h.
struct Part {
  std::string name;
  std::optional<std::string> filename;
  std::string content_type;  // Empty when it has none.
};

// The boundary that a Content-Type of multipart/form-data names; empty when it is another type.
// Throws HttpError 400 when there is no boundary, or not a good one (1 to 70 of RFC 2046's bchars).
std::optional<std::string> find_boundary(std::string_view content_type);

// Bytes to parts, without sockets. Holds a part's head and nothing of its data.
class MultipartParser {
 public:
  enum class Event {
    more,      // The input is used up.
    part,      // A part begins: part().
    data,      // Bytes of the part: data(), which is valid while the input is.
    part_end,  // The part is complete.
    end,       // So is the body. What follows is thrown away, if it is not much.
  };

  explicit MultipartParser(std::string_view boundary);

  // Takes bytes off `input` up to the next event. Throws HttpError 400; of no more use then.
  Event next(std::string_view& input);

  // The body has ended. Throws HttpError 400 if that was in the middle.
  void finish() const;

  Part& part() { return part_; }
  std::string_view data() const { return data_; }

 private:
  enum class State { preamble, data, delimiter, dash, padding, line_end, head, end };

  std::optional<Event> step(std::string_view& input);
  std::optional<Event> find_delimiter(std::string_view& input);
  std::optional<Event> match_on(std::string_view& input);
  std::optional<Event> end_part();
  std::optional<Event> give(std::string_view data);
  void read_delimiter_line(char c);
  std::optional<Event> read_head(std::string_view& input);
  void count_waste(std::size_t size);

  const std::string delimiter_;  // CR LF, two dashes and the boundary.
  State state_ = State::preamble;
  std::size_t matched_ = 2;  // Bytes of the delimiter that were seen at the end of the input.
  // How many of those are no data: the line break before a body or at the end of a part's head
  // serves the boundary right behind it as well.
  std::size_t borrowed_ = 2;
  std::size_t wasted_ = 0;  // Bytes before the first, after the last and within delimiter lines.
  int parts_ = 0;
  std::string head_;
  Part part_;
  std::string_view data_;
};

// The parts of a request's body, one after the other, through one buffer. The exchange must
// outlive it. Throws what Exchange::read_some throws, and HttpError 400.
class MultipartReader {
 public:
  MultipartReader(Exchange& exchange, std::string_view boundary);

  // The next part; what is left of the current one is skipped. Empty once the whole body has been
  // read to its end, so that a file is known to be complete.
  awaitable<std::optional<Part>> next_part();

  // More bytes of the current part, valid until the next call; empty at its end.
  awaitable<std::string_view> read();

  // What is left of the current part, for small ones. Throws HttpError 413 beyond `limit`.
  awaitable<std::string> read_text(Bytes limit);

 private:
  awaitable<MultipartParser::Event> next_event();

  Exchange& exchange_;
  MultipartParser parser_;
  std::size_t size_;  // Of the buffer.
  std::unique_ptr<char[]> buffer_;
  std::string_view input_;  // What of the buffer was not parsed yet.
  bool in_part_ = false;
};

}  // namespace tb::http

// SPDX-License-Identifier: Apache-2.0
#include "redis/protocol.h"

#include <hiredis/hiredis.h>

#include "base/error.h"

namespace tb::redis {
namespace {

Reply convert(const redisReply& from) {
  Reply reply;
  switch (from.type) {
    case REDIS_REPLY_INTEGER:
      reply.type = Reply::Type::number;
      reply.number = from.integer;
      break;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS: reply.type = Reply::Type::text; break;
    case REDIS_REPLY_ERROR: reply.type = Reply::Type::error; break;
    case REDIS_REPLY_ARRAY:
      reply.type = Reply::Type::list;
      reply.list.reserve(from.elements);
      for (std::size_t i = 0; i < from.elements; ++i)
        reply.list.push_back(convert(*from.element[i]));
      break;
    default: break;
  }
  const bool has_text = reply.type == Reply::Type::text || reply.type == Reply::Type::error;
  if (has_text && from.str) reply.text.assign(from.str, from.len);
  return reply;
}

}  // namespace

std::string format(const Command& command) {
  std::vector<const char*> words;
  std::vector<std::size_t> sizes;
  for (const std::string& word : command) {
    words.push_back(word.data());
    sizes.push_back(word.size());
  }
  char* bytes = nullptr;
  const auto size =
      ::redisFormatCommandArgv(&bytes, static_cast<int>(words.size()), words.data(), sizes.data());
  TB_ASSERT(size > 0);
  std::string text{bytes, static_cast<std::size_t>(size)};
  ::redisFreeCommand(bytes);
  return text;
}

void ReplyReader::Free::operator()(redisReader* reader) const { ::redisReaderFree(reader); }

ReplyReader::ReplyReader(Bytes limit)
    : reader_(::redisReaderCreate()), limit_(static_cast<std::size_t>(limit.count)) {
  TB_ASSERT(reader_ != nullptr);
}

ReplyReader::~ReplyReader() = default;

void ReplyReader::feed(std::string_view bytes) {
  waiting_ += bytes.size();
  if (waiting_ > limit_) throw Error{Code::unavailable, "Redis answers more than it was asked"};
  if (::redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK) {
    throw Error{Code::unavailable, "what Redis answers can't be read"};
  }
}

std::optional<Reply> ReplyReader::next() {
  void* raw = nullptr;
  if (::redisReaderGetReply(reader_.get(), &raw) != REDIS_OK) {
    throw Error{Code::unavailable, std::string{"Redis answers nonsense: "} + reader_->errstr};
  }
  if (!raw) {
    return std::nullopt;
  }
  waiting_ = reader_->len - reader_->pos;
  const std::unique_ptr<void, void (*)(void*)> owner{raw, ::freeReplyObject};
  return convert(*static_cast<redisReply*>(raw));
}

}  // namespace tb::redis

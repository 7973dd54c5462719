// SPDX-License-Identifier: Apache-2.0
#include "redis/locate.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/async.h"
#include "base/error.h"
#include "redis/link.h"

namespace tb::redis {
namespace {

struct Question {
  Node node;
  std::vector<Command> commands;  // the last one's reply is what matters
};

// Over a connection of its own.
awaitable<Reply> ask(asio::any_io_executor executor, Question question, bool encrypted,
                     net::Resolver& resolver, net::Tls& tls) {
  Link link{executor};
  co_await link.connect(question.node, encrypted, resolver, tls);
  std::string out;
  for (const Command& command : question.commands) out += format(command);
  co_await link.write(out);
  ReplyReader reader;
  std::array<char, 4096> piece;
  std::size_t left = question.commands.size();
  for (;;) {
    while (std::optional<Reply> reply = reader.next()) {
      if (--left == 0) co_return std::move(*reply);
      if (reply->is_error()) throw Error{Code::unavailable, "Redis says " + reply->text};
    }
    const std::size_t got = co_await link.read_some(piece);
    if (got == 0) throw Error{Code::unavailable, "the connection ended"};
    reader.feed({piece.data(), got});
  }
}

Question of_sentinel(const Settings& settings, Node node) {
  Question question{std::move(node), {}};
  if (!settings.sentinel_password.empty()) {
    question.commands.push_back({"AUTH", settings.sentinel_password});
  }
  question.commands.push_back({"SENTINEL", "get-master-addr-by-name", settings.master});
  return question;
}

Question of_node(const Settings& settings, Node node) {
  Question question{std::move(node), {}};
  if (!settings.password.empty()) {
    Command auth{"AUTH"};
    if (!settings.user.empty()) auth.push_back(settings.user);
    auth.push_back(settings.password);
    question.commands.push_back(std::move(auth));
  }
  question.commands.push_back({"GET", settings.cluster_key});
  return question;
}

// Empty: this one does not know.
std::optional<Node> answer_of(const Reply& reply, const Node& asked, bool sentinel) {
  if (!sentinel) {
    if (!reply.is_error()) return asked;
    return moved_to(reply, asked);
  }
  if (reply.list.size() != 2) return std::nullopt;
  return parse_node("[" + reply.at(0) + "]:" + reply.at(1), 0);
}

}  // namespace

bool is_elsewhere(const Reply& reply) {
  if (!reply.is_error()) return false;
  constexpr std::string_view kWords[] = {"MOVED ", "READONLY ", "CLUSTERDOWN ", "MASTERDOWN "};
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](std::string_view word) { return reply.text.starts_with(word); });
}

std::optional<Node> moved_to(const Reply& reply, const Node& asked) {
  if (!reply.is_error() || !reply.text.starts_with("MOVED ")) return std::nullopt;
  const std::size_t space = reply.text.rfind(' ');
  const std::string_view place = std::string_view{reply.text}.substr(space + 1);
  const std::size_t colon = place.rfind(':');
  if (colon == place.npos) return std::nullopt;
  const std::string host = colon == 0 ? asked.host : std::string{place.substr(0, colon)};
  return parse_node("[" + host + "]" + std::string{place.substr(colon)}, 0);
}

Node parse_node(std::string_view text, std::uint16_t port) {
  const Error wrong{Code::invalid, "\"" + std::string{text} + "\": must be host or host:port"};
  Node node;
  node.port = port;
  std::size_t end = text.rfind(':');
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == text.npos) throw wrong;
    node.host = text.substr(1, close - 1);
    end = close + 1 < text.size() ? close + 1 : text.npos;
    if (end != text.npos && text[end] != ':') throw wrong;
  } else {
    node.host = text.substr(0, end);
  }
  if (end != text.npos) {
    const std::string_view digits = text.substr(end + 1);
    const auto [last, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), node.port);
    if (error != std::errc{} || last != digits.data() + digits.size()) throw wrong;
  }
  if (node.host.empty() || node.port == 0) throw wrong;
  return node;
}

awaitable<Node> locate(asio::any_io_executor executor, const Settings& settings,
                       net::Resolver& resolver, net::Tls& tls) {
  const bool sentinel = !settings.sentinels.empty();
  const std::vector<Node>& nodes = sentinel ? settings.sentinels : settings.cluster;
  if (nodes.empty()) co_return Node{settings.host, settings.port};
  const auto limit = settings.connect / static_cast<int>(nodes.size() + 1);
  std::string problem;
  for (const Node& node : nodes) {
    Question question = sentinel ? of_sentinel(settings, node) : of_node(settings, node);
    std::optional<Reply> reply;
    try {
      auto task = ask(executor, std::move(question), settings.tls, resolver, tls);
      reply = co_await within(limit, std::move(task));
    } catch (const Error& error) {
      problem = error.what();
    }
    if (!reply) continue;
    if (const std::optional<Node> found = answer_of(*reply, node, sentinel)) co_return *found;
    problem = reply->is_error() ? reply->text : "it knows no primary " + settings.master;
  }
  throw Error{Code::unavailable,
              std::string{sentinel ? "no Sentinel" : "no node of the Redis Cluster"} +
                  " tells where the primary is: " + (problem.empty() ? "no answer" : problem)};
}

}  // namespace tb::redis

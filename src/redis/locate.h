// SPDX-License-Identifier: Apache-2.0
// Where the Redis to write to is at the moment: Sentinels know it, or the nodes of a Redis Cluster.
#pragma once

#include "net/resolver.h"
#include "net/tls.h"
#include "redis/client.h"

namespace tb::redis {

// Throws Error{unavailable} when nobody says.
awaitable<Node> locate(boost::asio::any_io_executor executor, const Settings& settings,
                       net::Resolver& resolver, net::Tls& tls);

// An error that says that another one is to be asked from now on.
bool is_elsewhere(const Reply& reply);

// "MOVED 3999 10.0.0.7:6381"; without a host it is `asked`'s. Empty: it is no such error.
std::optional<Node> moved_to(const Reply& reply, const Node& asked);

// "host" or "host:port", an IPv6 address in brackets. Throws Error{invalid}.
Node parse_node(std::string_view text, std::uint16_t port);

}  // namespace tb::redis

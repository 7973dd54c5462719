// SPDX-License-Identifier: Apache-2.0
// Which page a browser's request comes from. A page can't write the Origin header itself.
#pragma once

#include <string>
#include <vector>

#include "http/message.h"

namespace tb::http {

// The one Origin is a page of the very Host that is asked, with or without TLS.
bool is_own_origin(const Request& request);

// The one Origin is in the list, or "*" is.
bool is_listed_origin(const Request& request, const std::vector<std::string>& allowed);

// The request was sent to an address, or to a name that only this machine or its own network knows:
// no web site can have made a browser send it by a name of its own that leads here.
bool has_local_host(const Request& request);

// The host that it was sent to is that of an origin in the list.
bool is_listed_host(const Request& request, const std::vector<std::string>& allowed);

// Whether a WebSocket may be opened: browsers let every page open one to any server, with its
// cookies, and always say where the page is from. Without an Origin it is no browser.
bool same_origin_or_allowed(const Request& request, const std::vector<std::string>& allowed);

}  // namespace tb::http

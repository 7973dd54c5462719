// SPDX-License-Identifier: Apache-2.0
// The only map from an error to a status and a body.
#pragma once

#include <boost/json.hpp>
#include <exception>
#include <string>

#include "http/exchange.h"
#include "limits/limits.h"

namespace tb::api {

// A refusal whose body has more to say than its text.
class Refusal : public std::exception {
 public:
  Refusal(int status, std::string text, boost::json::object more = {})
      : status_(status), text_(std::move(text)), more_(std::move(more)) {}
  int status() const { return status_; }
  const boost::json::object& more() const { return more_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  int status_;
  std::string text_;
  boost::json::object more_;
};

// How things stand, by the names of draft-ietf-httpapi-ratelimit-headers-06.
void add_rate_headers(http::Exchange& exchange, const limits::Standing& standing);

// `request_id` names an internal error in the body and in the log, where its text is.
http::Response error_response(std::exception_ptr failure, const std::string& request_id);

}  // namespace tb::api

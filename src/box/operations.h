// SPDX-License-Identifier: Apache-2.0
// Asking a file helper for what it does on trees.
#pragma once

#include "box/helper.h"
#include "guest/operations_wire.h"
#include "sandbox/files.h"

namespace tb::box {

struct OperationReply {
  guest::files::OperationAnswer answer;
  std::unique_ptr<HelperFile> file;
};

// The first answer, or the next one; signs of life are waited through. Throws what the helper
// refuses, and Error{unavailable} when it says nothing for too long.
awaitable<OperationReply> ask_operation(HelperLink& link, guest::files::OperationRequest request);
awaitable<OperationReply> next_answer(HelperLink& link);

sandbox::FileInfo to_info(const guest::files::Entry& entry);
sandbox::FileInfo to_info(const guest::files::Item& item);
// That of a `done` that tells of one file.
sandbox::FileInfo only_item(const OperationReply& reply);
// Names for the reasons of both protocols. `text` is the helper's own, if it has one.
[[noreturn]] void refuse_file(guest::files::Reason reason, int number, const std::string& text);

}  // namespace tb::box

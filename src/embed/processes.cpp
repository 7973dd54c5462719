// SPDX-License-Identifier: Apache-2.0
// Commands, processes and what they print.
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "base/error.h"
#include "embed/operations.h"

namespace tb::embed {
namespace {

constexpr std::size_t kMaxLabel = 256;  // of a tag or a key
constexpr std::size_t kMaxInput = 16 << 20;
constexpr std::size_t kPiece = 64 << 10;
constexpr std::size_t kMaxPage = 1 << 20;

// The process, in a sandbox that is there: looking is no activity.
awaitable<std::shared_ptr<sandbox::Process>> find_process(CoreRef core, std::string id,
                                                          std::uint32_t number) {
  const auto session = co_await core->reach(std::move(id));
  const session::Use use = co_await core->sessions.look(session);
  auto process = use.sandbox().find_process(number);
  if (!process) throw NoProcess{};
  co_return process;
}

// Waits of another program's turn may come in between: then it is found and waited for again.
template <class Work>
auto with_process(CoreRef core, std::string id, std::uint32_t number, Work work)
    -> std::invoke_result_t<Work&, std::shared_ptr<sandbox::Process>> {
  for (;;) {
    const auto process = co_await find_process(core, id, number);
    try {
      co_return co_await work(process);
    } catch (const sandbox::Detached&) {
      // Once more.
    }
  }
}

awaitable<bool> output_beyond(std::shared_ptr<sandbox::Process> process, sandbox::Stream stream,
                              std::uint64_t offset) {
  co_await process->wait_output(stream, offset);
  co_return true;
}

Page page_of(const sandbox::Process& process, sandbox::Stream stream, std::uint64_t offset,
             std::size_t limit) {
  Page page;
  page.running = !process.exit();
  page.more = !process.output_ended(stream);  // before the bytes: nothing comes after the end
  page.total = process.output_size(stream);
  page.offset = offset < page.total ? process.next_output(stream, offset) : offset;
  page.dropped = page.offset - offset;
  page.bytes = process.read_output(stream, page.offset, limit);
  return page;
}

// More output, or the end of the process, which something that it left behind may outlive.
awaitable<bool> news_of(std::shared_ptr<sandbox::Process> process, Seen seen) {
  using namespace asio::experimental::awaitable_operators;
  const auto is_new = [&] {
    return process->output_size(sandbox::Stream::out) > seen.out ||
           process->output_size(sandbox::Stream::err) > seen.err;
  };
  while (!process->exit() && !is_new()) {
    if (process->output_ended(sandbox::Stream::all)) {
      co_await process->wait();
    } else {
      const std::uint64_t all = process->output_size(sandbox::Stream::all);
      co_await (output_beyond(process, sandbox::Stream::all, all) || process->wait());
    }
  }
  co_return true;
}

}  // namespace

void check_words(const sandbox::Command& command) {
  const auto refuse = [](const std::string& text) { throw Error{Code::invalid, text}; };
  const auto has_nul = [](const std::string& text) { return text.find('\0') != std::string::npos; };
  bool nul = has_nul(command.script);
  for (const std::string& word : command.argv) nul = nul || has_nul(word);
  if (nul) refuse("a command can't contain NUL bytes");
  if (command.tag.size() > kMaxLabel) refuse("the tag is longer than 256 bytes");
  if (command.key.size() > kMaxLabel) refuse("the idempotency key is longer than 256 bytes");
}

awaitable<Executed> execute(CoreRef core, std::string id, sandbox::Command command,
                            std::shared_ptr<Stopper> stopper) {
  co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
  check_words(command);
  const auto session = co_await core->reach(std::move(id));
  const session::Busy busy{*session};
  const session::Who who = session->who();
  const auto process = co_await core->sessions.start(session, std::move(command), who);
  stopper->process = process;
  stopper->check();
  co_await process->wait();
  Executed executed = executed_of(*process);
  stopper->process = nullptr;
  core->sessions.ended(session);
  co_return executed;
}

awaitable<ProcessView> start(CoreRef core, std::string id, sandbox::Command command,
                             std::shared_ptr<Stopper> stopper) {
  co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
  check_words(command);
  const auto session = co_await core->reach(std::move(id));
  const session::Who who = session->who();
  const session::Busy busy{*session};
  // What was started under this key may be known to another program alone.
  if (!command.key.empty()) co_await core->sessions.look(session);
  const auto process = co_await core->sessions.start_once(session, std::move(command), who);
  if (stopper->wanted) process->kill();  // nobody would know of it
  co_return view_of(*process);
}

awaitable<std::vector<ProcessView>> processes(CoreRef core, std::string id) {
  const auto session = co_await core->reach(std::move(id));
  const session::Use use = co_await core->sessions.look(session);
  std::vector<ProcessView> views;
  for (const auto& process : use.sandbox().processes()) views.push_back(view_of(*process));
  co_return views;
}

awaitable<ProcessView> process(CoreRef core, std::string id, std::uint32_t number) {
  const auto process = co_await find_process(core, std::move(id), number);
  co_return view_of(*process);
}

awaitable<ProcessView> wait(CoreRef core, std::string id, std::uint32_t number) {
  auto work = [](std::shared_ptr<sandbox::Process> process) -> awaitable<ProcessView> {
    co_await process->wait();
    co_return view_of(*process);
  };
  co_return co_await with_process(core, std::move(id), number, work);
}

awaitable<ProcessView> kill(CoreRef core, std::string id, std::uint32_t number) {
  auto work = [](std::shared_ptr<sandbox::Process> process) -> awaitable<ProcessView> {
    process->kill();
    co_await process->wait();
    co_return view_of(*process);
  };
  co_return co_await with_process(core, std::move(id), number, work);
}

awaitable<ProcessView> send_signal(CoreRef core, std::string id, std::uint32_t number, int signal,
                                   bool tree) {
  const auto process = co_await find_process(core, std::move(id), number);
  if (process->exit()) throw Error{Code::conflict, "the process has ended"};
  process->signal(signal, tree);
  co_return view_of(*process);
}

awaitable<ProcessView> resize(CoreRef core, std::string id, std::uint32_t number, unsigned rows,
                              unsigned columns) {
  const auto process = co_await find_process(core, std::move(id), number);
  process->resize(rows, columns);
  co_return view_of(*process);
}

awaitable<void> write_input(CoreRef core, std::string id, std::uint32_t number, std::string bytes) {
  if (bytes.size() > kMaxInput) {
    throw Error{Code::invalid, "more than 16 MiB at once: write them in pieces"};
  }
  const auto session = co_await core->reach(std::move(id));
  const session::Use use = co_await core->sessions.use(session);
  const auto process = use.sandbox().find_process(number);
  if (!process) throw NoProcess{};
  co_await process->write_input(std::move(bytes));
}

awaitable<void> close_input(CoreRef core, std::string id, std::uint32_t number) {
  const auto process = co_await find_process(core, std::move(id), number);
  if (!process->input_open()) throw Error{Code::conflict, "stdin is closed already"};
  process->close_input();
}

awaitable<Page> output(CoreRef core, std::string id, Wanted wanted) {
  wanted.limit = std::min(wanted.limit, kMaxPage);
  auto work = [wanted](std::shared_ptr<sandbox::Process> process) -> awaitable<Page> {
    if (wanted.wait.count() > 0 && process->output_size(wanted.stream) <= wanted.offset) {
      co_await within(wanted.wait, output_beyond(process, wanted.stream, wanted.offset));
    }
    co_return page_of(*process, wanted.stream, wanted.offset, wanted.limit);
  };
  co_return co_await with_process(core, std::move(id), wanted.process, work);
}

awaitable<Pieces> follow(CoreRef core, std::string id, Seen seen) {
  auto work = [seen](std::shared_ptr<sandbox::Process> process) -> awaitable<Pieces> {
    if (seen.wait) {
      co_await within(*seen.wait, news_of(process, seen));
    } else {
      co_await news_of(process, seen);
    }
    Pieces pieces;
    const bool over = process->exit().has_value();
    pieces.out = page_of(*process, sandbox::Stream::out, seen.out, kPiece);
    pieces.err = page_of(*process, sandbox::Stream::err, seen.err, kPiece);
    pieces.ended = over && pieces.out.bytes.empty() && pieces.err.bytes.empty();
    pieces.process = view_of(*process);
    co_return pieces;
  };
  co_return co_await with_process(core, std::move(id), seen.process, work);
}

}  // namespace tb::embed

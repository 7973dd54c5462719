// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "make_job.h"

namespace tb::python {
namespace {

// Or None.
std::optional<unsigned> mode(Arguments& in) {
  const std::optional<std::int64_t> value = in.optional_number();
  if (!value) return std::nullopt;
  // What is no mode at all stays none.
  return *value < 0 || *value > UINT32_MAX ? UINT32_MAX : static_cast<unsigned>(*value);
}

// Negative ones are as wrong as 0, and the operation says what is right.
std::uint64_t natural(std::int64_t value) {
  return value < 0 ? 0 : static_cast<std::uint64_t>(value);
}

Job upload(Arguments& in) {
  const std::string id = in.text();
  const std::string name = in.text();
  return job([id, name, data = in.data()](CoreRef core) mutable {
    return embed::upload(std::move(core), id, name, std::move(data));
  });
}

Job open_upload(Arguments& in) {
  return job([id = in.text()](CoreRef core) { return embed::open_upload(std::move(core), id); });
}

Job write_upload(Arguments& in) {
  const std::uint64_t handle = in.count();
  return job([handle, data = in.data()](CoreRef core) mutable {
    return embed::write_upload(std::move(core), handle, std::move(data));
  });
}

Job end_upload(Arguments& in) {
  const std::uint64_t handle = in.count();
  return job([handle, name = in.text()](CoreRef core) {
    return embed::end_upload(std::move(core), handle, name);
  });
}

Job open_download(Arguments& in) {
  const std::string id = in.text();
  return job([id, name = in.text()](CoreRef core) {
    return embed::open_download(std::move(core), id, name);
  });
}

Job read_download(Arguments& in) {
  const std::uint64_t handle = in.count();
  const std::uint64_t limit = in.count();
  return job([=](CoreRef core) { return embed::read_download(std::move(core), handle, limit); });
}

Job close_transfer(Arguments& in) {
  return job([handle = in.count()](CoreRef core) {
    return embed::close_transfer(std::move(core), handle);
  });
}

Job list_files(Arguments& in) {
  const std::string id = in.text();
  return job([id, path = in.text()](CoreRef core) {
    return embed::list_files(std::move(core), id, path);
  });
}

Job stat_file(Arguments& in) {
  const std::string id = in.text();
  return job(
      [id, path = in.text()](CoreRef core) { return embed::stat_file(std::move(core), id, path); });
}

// session, path, recursive, limit, cursor
Job walk_files(Arguments& in) {
  const std::string id = in.text();
  sandbox::WalkSpec spec;
  spec.path = in.text();
  spec.recursive = in.flag();
  spec.most = natural(in.number());
  spec.after = in.data();
  return job([=](CoreRef core) { return embed::walk_files(std::move(core), id, spec); });
}

// session, pattern, path, limit
Job glob_files(Arguments& in) {
  const std::string id = in.text();
  sandbox::WalkSpec spec;
  spec.pattern = in.text();
  spec.path = in.text();
  spec.most = natural(in.number());
  return job([=](CoreRef core) { return embed::glob_files(std::move(core), id, spec); });
}

// session, pattern, path, regex, ignore_case, glob, max_results
Job search_files(Arguments& in) {
  const std::string id = in.text();
  sandbox::SearchSpec spec;
  spec.text = in.text();
  spec.path = in.text();
  spec.regex = in.flag();
  spec.ignore_case = in.flag();
  spec.glob = in.text();
  spec.most = natural(in.number());
  return job([=](CoreRef core) { return embed::search_files(std::move(core), id, spec); });
}

Job make_directory(Arguments& in) {
  const std::string id = in.text();
  const std::string path = in.text();
  const std::optional<unsigned> permissions = mode(in);
  return job(
      [=](CoreRef core) { return embed::make_directory(std::move(core), id, path, permissions); });
}

// session, from, to, overwrite
Job move_file(Arguments& in) {
  const std::string id = in.text();
  const std::string from = in.text();
  const std::string to = in.text();
  const bool replaces = in.flag();
  return job(
      [=](CoreRef core) { return embed::move_file(std::move(core), id, from, to, replaces); });
}

Job remove_file(Arguments& in) {
  const std::string id = in.text();
  const std::string path = in.text();
  const bool recursive = in.flag();
  return job(
      [=](CoreRef core) { return embed::remove_file(std::move(core), id, path, recursive); });
}

Job read_file(Arguments& in) {
  const std::string id = in.text();
  return job(
      [id, path = in.text()](CoreRef core) { return embed::read_file(std::move(core), id, path); });
}

// session, path, first line, how many or None
Job read_lines(Arguments& in) {
  const std::string id = in.text();
  const std::string path = in.text();
  sandbox::LineRange range;
  range.first = natural(in.number());
  if (const auto count = in.optional_number()) range.count = natural(*count);
  return job([=](CoreRef core) { return embed::read_lines(std::move(core), id, path, range); });
}

// session, path, data, append, exclusive, mode
Job write_file(Arguments& in) {
  const std::string id = in.text();
  const std::string path = in.text();
  std::string data = in.data();
  sandbox::Naming naming;
  naming.append = in.flag();
  naming.exclusive = in.flag();
  naming.mode = mode(in);
  return job([id, path, naming, data = std::move(data)](CoreRef core) mutable {
    return embed::write_file(std::move(core), id, path, std::move(data), naming);
  });
}

// session, path, old, new, replace_all
Job edit_file(Arguments& in) {
  const std::string id = in.text();
  const std::string path = in.text();
  sandbox::Edit edit;
  edit.from = in.text();
  edit.to = in.text();
  edit.all = in.flag();
  return job([=](CoreRef core) { return embed::edit_file(std::move(core), id, path, edit); });
}

// session, paths, gzip
Job read_archive(Arguments& in) {
  const std::string id = in.text();
  const std::vector<std::string> paths = in.words();
  const bool gzip = in.flag();
  return job([=](CoreRef core) { return embed::read_archive(std::move(core), id, paths, gzip); });
}

Job write_archive(Arguments& in) {
  const std::string id = in.text();
  const std::string path = in.text();
  return job([id, path, data = in.data()](CoreRef core) mutable {
    return embed::write_archive(std::move(core), id, path, std::move(data));
  });
}

constexpr JobRow kJobs[] = {{"upload", upload},
                            {"open_upload", open_upload},
                            {"write_upload", write_upload},
                            {"end_upload", end_upload},
                            {"open_download", open_download},
                            {"read_download", read_download},
                            {"close_transfer", close_transfer},
                            {"list_files", list_files},
                            {"stat_file", stat_file},
                            {"walk_files", walk_files},
                            {"glob_files", glob_files},
                            {"search_files", search_files},
                            {"make_directory", make_directory},
                            {"move_file", move_file},
                            {"remove_file", remove_file},
                            {"read_file", read_file},
                            {"read_lines", read_lines},
                            {"write_file", write_file},
                            {"edit_file", edit_file},
                            {"read_archive", read_archive},
                            {"write_archive", write_archive}};

}  // namespace

std::span<const JobRow> file_jobs() { return kJobs; }

}  // namespace tb::python

// SPDX-License-Identifier: Apache-2.0
// An image made of small files: where names lead, and what is a program.
#include "jail/programs.h"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "os/test_dir.h"

namespace tb::jail {
namespace {

namespace fs = std::filesystem;

// As much of a program as is looked at.
std::string elf(unsigned type, const std::string& interpreter) {
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_type = static_cast<Elf64_Half>(type);
  head.e_phoff = sizeof head;
  head.e_phentsize = sizeof(Elf64_Phdr);
  head.e_phnum = interpreter.empty() ? 0 : 1;
  Elf64_Phdr part{};
  part.p_type = PT_INTERP;
  part.p_offset = sizeof head + sizeof part;
  part.p_filesz = interpreter.size() + 1;
  std::string text{reinterpret_cast<const char*>(&head), sizeof head};
  if (interpreter.empty()) return text;
  text.append(reinterpret_cast<const char*>(&part), sizeof part);
  return text + interpreter + '\0';
}

const std::string kProgram = elf(ET_DYN, "/lib64/ld.so.2");

class ProgramsTest : public testing::Test {
 protected:
  ProgramsTest() {
    fs::create_directory_symlink("usr/bin", root("/bin"), ignored);
    fs::create_directory_symlink("usr/lib", root("/lib"), ignored);
    fs::create_directory_symlink("usr/lib64", root("/lib64"), ignored);
    file("/usr/lib/x86_64-linux-gnu/ld.so.2", elf(ET_DYN, ""));
    link("/lib/x86_64-linux-gnu/ld.so.2", "/usr/lib64/ld.so.2");
    file("/usr/bin/bash", kProgram);
    file("/etc/passwd", "");
    file("/usr/share/x", "");
  }
  std::string root(const std::string& path) { return dir.path() + path; }
  void file(const std::string& path, const std::string& content) {
    fs::create_directories(fs::path{root(path)}.parent_path());
    os::replace_file(root(path), content, 0755);
  }
  void link(const std::string& target, const std::string& path) {
    fs::create_directories(fs::path{root(path)}.parent_path());
    fs::create_symlink(target, root(path));
  }
  os::Fd image() { return os::Fd{::open(dir.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)}; }
  std::vector<std::string> run(const std::vector<std::string>& programs) {
    return confine_to(image(), programs).run;
  }

  os::TestDir dir;
  std::error_code ignored;
};

using Paths = std::vector<std::string>;

TEST_F(ProgramsTest, TheShellAndItsLoaderAreAlwaysThere) {
  EXPECT_EQ(run({"nothing"}), (Paths{"/usr/bin/bash", "/usr/lib/x86_64-linux-gnu/ld.so.2"}));
}

TEST_F(ProgramsTest, LinksAreFollowedInsideTheImage) {
  file("/usr/bin/mawk", kProgram);
  link("/usr/bin/mawk", "/etc/alternatives/awk");
  link("/etc/alternatives/awk", "/usr/bin/awk");
  file("/usr/bin/rm", kProgram);
  link("../../../../../../../../etc/hostname", "/usr/bin/out");
  const Paths paths = run({"awk", "out"});
  EXPECT_EQ(paths, (Paths{"/usr/bin/bash", "/usr/bin/mawk", "/usr/lib/x86_64-linux-gnu/ld.so.2"}));
}

TEST_F(ProgramsTest, EveryPlaceOfThePathCounts) {
  file("/usr/bin/tool", kProgram);
  file("/usr/local/bin/tool", "#!/usr/bin/perl\n");
  file("/usr/bin/perl", kProgram);
  file("/usr/sbin/tool", kProgram);
  EXPECT_EQ(run({"tool"}), (Paths{"/usr/bin/bash", "/usr/bin/tool",
                                  "/usr/lib/x86_64-linux-gnu/ld.so.2", "/usr/local/bin/tool"}));
}

TEST_F(ProgramsTest, DirectoriesAndDanglingLinksAreNoPrograms) {
  fs::create_directories(root("/usr/bin/dir"));
  link("/nowhere", "/usr/bin/dangling");
  link("loop", "/usr/bin/loop");
  EXPECT_EQ(run({"dir", "dangling", "loop"}).size(), 2u);
}

TEST_F(ProgramsTest, ManyInOneIsOneOnlyWhenItIsListed) {
  file("/usr/bin/busybox", elf(ET_EXEC, ""));
  link("busybox", "/usr/bin/ls");
  ::link(root("/usr/bin/busybox").c_str(), root("/usr/bin/cat").c_str());
  link("busybox", "/usr/bin/sh");
  EXPECT_EQ(run({"ls", "cat"}).size(), 2u);
  const Paths listed = run({"ls", "busybox"});
  EXPECT_NE(std::find(listed.begin(), listed.end(), "/usr/bin/busybox"), listed.end());
}

TEST_F(ProgramsTest, DataAndLibrariesCanBeReadAndNoPlaceOfPrograms) {
  file("/usr/lib/python3.11/os.py", "");
  file("/usr/lib/libsingle.so.1", elf(ET_DYN, ""));
  file("/usr/lib/gcc/cc1", kProgram);
  file("/usr/lib/git-core/git", kProgram);
  file("/usr/libexec/helper", kProgram);
  EXPECT_EQ(confine_to(image(), {}).read,
            (Paths{"/etc", "/usr/share", "/usr/lib/libsingle.so.1", "/usr/lib/python3.11",
                   "/usr/lib/x86_64-linux-gnu", "/usr/lib64"}));
}

TEST_F(ProgramsTest, ALinkToAllLibrariesOpensNothing) {
  fs::remove_all(root("/usr/lib64"));
  link("lib", "/usr/lib64");
  fs::remove_all(root("/usr/share"));
  link("bin", "/usr/share");
  const Paths read = confine_to(image(), {}).read;
  EXPECT_EQ(read, (Paths{"/etc", "/usr/lib/x86_64-linux-gnu"}));
}

TEST_F(ProgramsTest, ProgramsAmongLibrariesAreFound) {
  file("/usr/lib/x86_64-linux-gnu/gettext/hostname", kProgram);
  file("/usr/lib/x86_64-linux-gnu/static", elf(ET_EXEC, ""));
  file("/usr/lib/x86_64-linux-gnu/libc.so.6", kProgram);
  file("/usr/lib/x86_64-linux-gnu/mod.cpython-311.so", elf(ET_DYN, ""));
  file("/usr/lib/x86_64-linux-gnu/crt1.o", elf(ET_REL, ""));
  file("/usr/lib/python3/x/run.py", "#!/usr/bin/python3\n");
  file("/usr/lib/python3/x/short", "\x7f");
  link("/usr/bin/bash", "/usr/lib/python3/x/link");
  Paths found = find_helpers(image());
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (Paths{"/usr/lib/x86_64-linux-gnu/gettext/hostname",
                          "/usr/lib/x86_64-linux-gnu/static"}));
}

TEST_F(ProgramsTest, HeadersThatLieAreNoReasonToCrash) {
  for (std::size_t i = 0; i < kProgram.size(); ++i) {
    std::string text = kProgram;
    text[i] = '\xff';
    file("/usr/bin/odd", text);
    EXPECT_GE(run({"odd"}).size(), 2u);
    file("/usr/bin/odd", text.substr(0, i));
    EXPECT_GE(run({"odd"}).size(), 2u);
  }
}

}  // namespace
}  // namespace tb::jail

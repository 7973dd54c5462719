# SPDX-License-Identifier: Apache-2.0
"""Each rule of check.py: a sample that breaks it, and one that looks like it but is fine.

Samples that would break a rule here too are put together from halves ("FIX" "ME").
"""
import json
import pathlib
import subprocess
import sys

import pytest

import check

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
HEADER = SPDX + "#pragma once\n"
CLEAN = {
    "README.md": "[docs](docs/a.md#part) [web](https://example.org/x) `[no](link)` [up](#top)\n"
                 "```\n[in code](nowhere.md)\n```\n",
    "docs/a.md": "[home](../README.md) [source](/src/base/a.h)\n",
    "run": "#!/bin/sh\n# Starts it.\n\nset -eu  # stop at the first failure\necho hi\n",
    "src/main.cpp": SPDX + '#include "api/a.h"\n#include "jail/plan.h"\n',
    "src/base/a.h": HEADER + "int a();\n",
    "src/base/a.cpp": SPDX + "// Why it is here.\n#include \"base/a.h\"\n\n#include <string>\n",
    "src/jail/plan.h": HEADER + '#include "os/fd.h"\n',
    "src/jail/wire.h": HEADER,
    "src/guest/wire.h": HEADER,
    "src/os/fd.h": HEADER + '#include "base/a.h"\n',
    "src/native/a.cpp": SPDX + '#include "guest/wire.h"\n#include "jail/wire.h"\n',
    "src/api/a.h": HEADER + "#include <boost/json.hpp>\n",
}


@pytest.fixture
def tree(tmp_path):
    """A small repository that keeps every rule; call it with more files, get what is wrong."""
    def write(files, update=False):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check.run(tmp_path, update)
    (tmp_path / "tests/tidy").mkdir(parents=True)
    assert write(CLEAN) == []
    return write


def only(problems, where, words):
    assert len(problems) == 1, problems
    assert problems[0].startswith(where + ": "), problems
    assert words in problems[0]


@pytest.mark.parametrize("room, include", [
    ("base", '"os/fd.h"'), ("http", '"sandbox/a.h"'), ("native", '"jail/plan.h"'),
    ("native", '"guest/main.h"'), ("session", '"http/a.h"'), ("api", '"native/a.h"'),
    ("store", '"sandbox/a.h"'), ("os", '"cli/a.h"'), ("base", "<os/fd.h>"),
])
def test_an_include_against_the_arrows_is_found(tree, room, include):
    problems = tree({f"src/{room}/b.cpp": SPDX + f"#include {include}\n"})
    only(problems, f"src/{room}/b.cpp:2", f"{room}/ may not include")


def test_an_include_without_a_room_is_found(tree):
    only(tree({"src/os/b.cpp": SPDX + '#include "fd.h"\n'}), "src/os/b.cpp:2", "names no room")


def test_a_room_that_nobody_planned_is_found(tree):
    only(tree({"src/utils/b.h": HEADER}), "src/utils/b.h:1", "room utils/ is unknown")


def test_an_include_in_a_comment_is_none(tree):
    assert tree({"src/base/b.h": HEADER + '/*\n#include "os/fd.h"\n*/\n'}) == []


@pytest.mark.parametrize("name, head", [
    ("src/base/b.h", HEADER), ("tests/b.py", ""), ("tests/b.sh", "set -eu\n"),
    ("go", "#!/bin/sh\nset -eu\n"),
])
def test_a_long_line_is_found(tree, name, head):
    comment = "//" if name.endswith(".h") else "##"
    assert tree({name: head + comment + "é" * 98 + "\n"}) == []
    only(tree({name: head + comment + "é" * 99 + "\n"}), f"{name}:{head.count(chr(10)) + 1}", "101")


@pytest.mark.parametrize("code, name, instead", [
    ("std::system(c);", "system(", "os/spawn"), ("auto f = popen(c, m);", "popen(", "os/spawn"),
    ("x = strtol(s, 0, 10);", "strtol", "from_chars"), ("x = std::atoi(s);", "atoi", "from_chars"),
    ("Fd b{::dup(a)};", "dup(", "F_DUPFD_CLOEXEC"), ("return dup(a);", "dup(", "F_DUPFD_CLOEXEC"),
    ("co_spawn(io, f, asio::detached);", "asio::detached", "TaskGroup"),
    ("::usleep(5);", "usleep", "timer"), ("sprintf(b, f);", "sprintf(", "snprintf"),
    ("std::strcpy(a, b);", "strcpy(", "std::string"), ("std::regex r;", "std::regex", "parser"),
    ("using namespace std;", "using namespace std", "std::x"),
])
def test_a_banned_call_is_found_and_its_replacement_named(tree, code, name, instead):
    problems = tree({"src/base/b.cpp": SPDX + "\n" + code + "\n"})
    only(problems, "src/base/b.cpp:3", instead)
    assert name in problems[0]


def test_what_only_looks_like_a_banned_call_is_fine(tree):
    assert tree({"src/base/b.cpp": SPDX + r'''
// system( in a comment
/* popen( over
   lines: strcpy( */
auto a = "system(\"x\") " "popen(";
auto b = R"x(sprintf( )" usleep )x";
auto c = 1'000 + '"' + '\'';  // an apostrophe opens nothing: atoi
void f() { snprintf(b, n, f); file.system(1); my::popen(2); ::dup2(1, 2); Fd::dup(3); }
using namespace std::chrono_literals;
int file_system(int x);
'''}) == []


def test_a_banned_call_after_tricky_literals_is_still_found(tree):
    code = SPDX + "auto a = R\"(\n\"//)\"; auto c = '\"'; int n = 1'000; system(c);\n"
    only(tree({"src/base/b.cpp": code}), "src/base/b.cpp:3", "system(")


def test_a_handler_that_asks_for_a_session_by_itself_is_found(tree):
    code = SPDX + "void f(S& service) { service.sessions.get(id); }\n"
    fine = SPDX + "void f(S& service) { service.sessions.get_or_create(x); }\n"
    assert tree({"src/api/own.cpp": code, "src/session/x.cpp": code, "src/api/x_test.cpp": code,
                 "src/api/y.cpp": fine}) == []
    only(tree({"src/api/x.cpp": code}), "src/api/x.cpp:2", "own.cpp")


@pytest.mark.parametrize("word", ["TODO" "(now)", "FIX" "ME", "XX" "X"])
def test_a_leftover_is_found(tree, word):
    only(tree({"tests/b.py": f"# {word}: later\n"}), "tests/b.py:1", word)


def test_an_open_end_with_a_time_is_fine(tree):
    assert tree({"tests/b.py": "# TODO(soon): more\nname = 'dir.XX" "XXXX'\n"}) == []


def test_a_file_without_licence_is_found(tree):
    only(tree({"tests/b.cpp": "int x;\n"}), "tests/b.cpp:1", "no licence line")


def test_a_header_without_pragma_once_is_found(tree):
    only(tree({"src/base/b.h": SPDX + "// #pragma once\n"}), "src/base/b.h:1", "#pragma once")


def test_an_own_header_that_is_not_first_is_found(tree):
    problems = tree({"src/base/a.cpp": SPDX + '#include <string>\n#include "base/a.h"\n'})
    only(problems, "src/base/a.cpp:2", 'include "base/a.h" first')


def body(lines):
    return "  step();\n" * lines


FUNCTIONS = [  # (head, name, lines of the head)
    ("void f() {", "f", 1),
    ("Box::Box(int a)\n    : a_(a), b_{a}, c_{{1, 2}} {", "Box::Box", 2),
    ("template <class T = Map<int>>\nauto g(T t = {}) -> std::map<T, int> {", "g", 2),
    ("TEST(Output, KeepsTheLastBytes) {", "Output.KeepsTheLastBytes", 1),
    ("bool operator==(const A& a, const B& b) {", "operator==", 1),
    ("const auto kStart = [](int x) {", "kStart", 1),
    ("namespace {\nstruct Row : Base<int(int)> {\n  Row(Spec s = {}) noexcept : s_{s} {}\n"
     "  int get() const {", "Row::get", 1),
]


@pytest.mark.parametrize("head, name, lines", FUNCTIONS)
def test_a_long_function_is_found_by_its_name(tree, head, name, lines):
    end = "}\n" + "}\n" * (2 if "namespace" in head else 0)
    fits = 60 - lines - 1
    assert tree({"src/base/b.cpp": SPDX + head + "\n" + body(fits) + end}) == []
    problems = tree({"src/base/b.cpp": SPDX + head + "\n" + body(fits + 1) + end})
    only(problems, f"src/base/b.cpp:{2 + head.count(chr(10)) + 1 - lines}", f" {name} has 61 lines")


def test_a_long_table_or_class_is_no_long_function(tree):
    rows = '    {"a", f(1)},\n' * 70
    members = "  int get(int x) const { return x; }\n" * 70
    code = SPDX + "constexpr Row kRows[] = {\n" + rows + "};\nclass A : public B {\n public:\n"
    assert tree({"src/base/b.cpp": code + members + "};\n"}) == []


def test_a_long_python_function_is_found(tree):
    problems = tree({"tests/b.py": "def f():\n" + "    pass\n" * 60})
    only(problems, "tests/b.py:1", "f has 61 lines")


def test_a_long_file_is_found(tree):
    assert tree({"tests/b.py": "pass\n" * 400}) == []
    only(tree({"tests/b.py": "pass\n" * 401}), "tests/b.py:1", "has 401 lines, more than 400")


def test_the_ratchet_only_goes_down(tree, tmp_path):
    def recorded():
        return json.loads((tmp_path / check.RATCHET).read_text())

    assert tree({"tests/b.py": "pass\n" * 450}, update=True) == []  # the first record
    assert recorded() == {"tests/b.py": 450}
    only(tree({"tests/b.py": "pass\n" * 451}), "tests/b.py:1", "451 lines, more than 450")
    only(tree({}, update=True), "tests/b.py:1", "451 lines, more than 450")
    assert recorded() == {"tests/b.py": 450}
    only(tree({"tests/b.py": "pass\n" * 420}), f"{check.RATCHET}:1", "--update")
    assert tree({}, update=True) == []
    assert recorded() == {"tests/b.py": 420}
    only(tree({"tests/b.py": "pass\n"}), f"{check.RATCHET}:1", "--update")
    assert tree({}, update=True) == []
    assert recorded() == {}


@pytest.mark.parametrize("name", ["README.md", "docs/deep/b.md", "src/README.md"])
@pytest.mark.parametrize("link", ["[a](gone.md)", "[a]: gone.md", '![a](gone.png "title")'])
def test_a_dead_link_is_found(tree, name, link):
    only(tree({name: "\n" + link + "\n"}), f"{name}:2", "link to gone.")


def test_a_link_out_of_the_repository_is_found(tree, tmp_path):
    outside = f"../../{tmp_path.parent.name}"
    only(tree({"docs/a.md": f"[a]({outside})\n"}), "docs/a.md:1", "link to ..")


@pytest.mark.parametrize("text", [
    "cd /wo" "rk/main", 'open("/ro" "ot/.x")'.replace('" "', ""), "file:///wo" "rk/x",
    "https://registry.npmjs" ".org/a", "FROM ghcr" ".io/a/b", '"resolved": ' '"http://mirror/a"',
    "pip install --index-" "url http://mirror/simple a",
])
def test_a_path_or_registry_of_a_development_machine_is_found(tree, text):
    assert len(tree({"deploy/file.yaml": text + "\n"})) == 1
    assert tree({"deploy/file.yaml": text + "  # tidy: allow-path\n"}) == []


def test_paths_that_only_end_alike_are_fine(tree):
    text = "${DIR}/wo" "rk/ a/ro" "ot/b /workspace/ /root docker\n"
    assert tree({"deploy/file.yaml": text}) == []


@pytest.mark.parametrize("text", ["# Head.\necho hi\nset -eu\n", "set -e\n", "# Nothing.\n"])
def test_a_shell_script_without_set_eu_is_found(tree, text):
    problems = tree({"tests/b.sh": text})
    assert len(problems) == 1 and "set -eu" in problems[0]


def test_set_euo_pipefail_is_fine(tree):
    assert tree({"tests/b.sh": "#!/usr/bin/env bash\n# Head.\nset -euo pipefail\n"}) == []


def test_what_is_built_or_binary_is_not_looked_at(tree, tmp_path):
    (tmp_path / "blob").write_bytes(b"\xff\xfe FIX" b"ME")
    data = {"build/b.cpp": "int x;\n", "build-x/b.h": "", "tests/fuzz/corpus/1": "FIX" "ME"}
    assert tree(data) == []


def test_the_program_prints_and_exits_with_the_result(tmp_path):
    copy = tmp_path / "tests/tidy/check.py"
    copy.parent.mkdir(parents=True)
    copy.write_text(pathlib.Path(check.__file__).read_text())
    command = [sys.executable, str(copy)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    (tmp_path / "b.h").write_text(SPDX)
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout.startswith("b.h:1: header without")

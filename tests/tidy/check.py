#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""House rules that a compiler does not know. Prints `file:line: what is wrong; what to do`.

check.py            checks the repository; exit 1 when a rule is broken
check.py --update   first lowers tests/tidy/ratchet.json to what has shrunk; never raises it
                    (without the file it records every offender of today)
"""
import argparse
import ast
import json
import os
import pathlib
import re
import sys
from urllib.parse import unquote

# Who may include whom. A file of src/ itself (main.cpp, config.*) and the rooms that wire a program
# or a library from all the others may include all.
ALLOWED = {
    "base": set(), "match": set(), "os": {"base"}, "http": {"base"}, "net": {"http", "base"},
    "sandbox": {"base", "match"},
    "limits": {"base"},
    "yaml": {"base"}, "policy": {"yaml", "base"},
    "registry": {"policy", "sandbox", "yaml", "base"},
    "jail": {"os", "base", "guest/wire.h"}, "guest": {"os", "base", "match"},
    "box": {"sandbox", "os", "base", "guest/wire.h", "guest/container_wire.h",
            "guest/files_wire.h", "guest/operations_wire.h", "guest/expect_wire.h"},
    "native": {"box", "sandbox", "os", "base", "guest/wire.h", "guest/operations_wire.h",
               "jail/wire.h"},
    "docker": {"box", "sandbox", "http", "os", "base", "guest/container_wire.h",
               "guest/carrier_wire.h", "jail/guest_image.h"},
    "e2b": {"sandbox", "match", "net", "http", "os", "base", "box/output.h",
            "box/command.h", "box/records.h"},
    "session": {"limits", "sandbox", "registry", "policy", "storage", "base", "os/test_dir.h"},
    "hooks": {"session", "sandbox", "net", "http", "os", "base"},
    "audit": {"match", "os", "base"},
    "store": {"session", "base", "os/test_dir.h", "hooks/outbox.h"},
    "shell": {"sandbox", "base"},
    "code": {"session", "shell", "sandbox", "base"},
    "redis": {"net", "base", "os/test_dir.h", "os/spawn.h"},
    "cluster": {"limits", "session", "sandbox", "redis", "net", "http", "base"},
    "checkpoints": {"session", "sandbox", "net", "http", "os", "base"},
    "storage": {"sandbox", "os", "base"},
    "auth": {"net", "http", "os", "base", "store/sqlite.h", "store/schema.h"},
    "api": {"limits", "auth", "session", "registry", "storage", "shell", "code", "sandbox",
            "hooks", "net", "audit", "http", "base"},
}
SEES_ALL = {"", "cli", "embed"}

# A call is free, ::qualified or std::; a member or another namespace's function is somebody else's.
CALL = r"(?<![\w.:>])(?:std::|::)?"
BANNED = [(re.compile(pattern), name, instead) for pattern, name, instead in [
    (CALL + r"system\s*\(", "system(", "start the program with os/spawn"),
    (CALL + r"popen\s*\(", "popen(", "start the program with os/spawn and a pipe"),
    (CALL + r"(?:strto(?:u?ll?|[iu]max)|ato(?:i|ll?))\b", "strtol/atoi", "use std::from_chars"),
    (r"(?<![\w>])::dup\s*\(|(?:^|[=(,;{}!]|\breturn)\s*dup\s*\(", "dup(", "use F_DUPFD_CLOEXEC"),
    (r"\basio(?:::|/)detached\b", "asio::detached", "give the task an owner: TaskGroup::spawn"),
    (CALL + r"usleep\b", "usleep", "wait on a timer or poll with a limit"),
    (CALL + r"v?sprintf\s*\(", "sprintf(", "use std::string or snprintf"),
    (CALL + r"strcpy\s*\(", "strcpy(", "use std::string or a bounded copy"),
    (r"\bstd::w?regex|<regex>", "std::regex", "write a small parser: it is slow and recursive"),
    (r"\busing\s+namespace\s+std\s*;", "using namespace std", "name what you use: std::x"),
]]
BY_NAME = re.compile(r"\bsessions_?\s*\.\s*(?:find|get|find_thread|all|remove)\s*\("
                     r"|\bartifacts_?\s*->\s*(?:find|get|list)\s*\(|\blogs_?\s*->\s*read\s*\("
                     r"|\bvolumes_?\s*->\s*list_tenant\((?!call\.principal\.tenant\))")
LEFTOVER = re.compile(r"TODO\(now\)|\bFIXM[E]\b|\bXX[X]\b")
MACHINE_PATH = re.compile(r"(?<![\w.~})>*-])/(?:work|root)/")
REGISTRY = re.compile(
    r"\b(?:registry\.npmjs\.or[g]|registry\.yarnpkg\.co[m]|pypi\.org/simpl[e]|test\.pypi\.or[g]"
    r"|files\.pythonhosted\.or[g]|(?:index|static)\.crates\.i[o]|proxy\.golang\.or[g]"
    r"|(?:registry-1\.|index\.)?docker\.io[/]|ghcr\.i[o]|quay\.i[o]|gcr\.i[o])\b"
    r"|(?:\bindex-url|^\s*registry)\s*[= ]\s*http|\"resolved\":\s*\"http")
ALLOW_PATH = "tidy: allow-path"
MAX_LINE, MAX_FUNCTION, MAX_FILE = 100, 60, 400
MAX_READ = 1 << 20  # larger files are data
SKIPPED = {".git", "build", "__pycache__", ".cache", ".pytest_cache", "node_modules", "dist",
           ".venv", "corpus", "corpora", "probes"}
RATCHET = "tests/tidy/ratchet.json"

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^">]+)[">]')
SHELL = re.compile(r"#!.*\b(?:ba|da)?sh\b")
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)[^)]*\)|^\s*\[[^\]]+\]:\s*<?([^\s>]+)")
TOKEN = re.compile(
    r'(?P<raw>\b(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")'
    r"|(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)"
    r'|(?P<text>"(?:\\.|[^"\\\n])*")'
    r"|(?P<number>\b\d(?:'?[\w.])*)"  # 1'000 opens no character literal
    r"|(?P<char>'(?:\\.|[^'\\\n])+')", re.S)


def code_of(text):
    """C++ text with comments blanked and literals emptied; every line keeps its number."""
    def blank(match):
        inside = match["number"] or re.sub(r"[^\n]", " ", match[0])
        return inside if match["number"] or match["comment"] else '"' + inside[2:] + '"'
    return TOKEN.sub(blank, text)


class File:
    """One text file: `name` relative to the root, and for C++ its `code` lines (no comments)."""

    def __init__(self, root, path, text):
        self.path, self.name, self.text = path, path.relative_to(root).as_posix(), text
        self.lines = text.rstrip("\n").split("\n")
        self.cpp = path.suffix in (".h", ".cpp")
        self.shell = path.suffix == ".sh" or bool(SHELL.match(text))
        self.python = path.suffix == ".py"
        self.code = code_of(text).rstrip("\n").split("\n") if self.cpp else []
        parts = self.name.split("/")
        self.in_src = parts[0] == "src"
        self.room = parts[1] if self.in_src and len(parts) > 2 else ""

    def includes(self):
        for number, (line, code) in enumerate(zip(self.lines, self.code), 1):
            if re.match(r"\s*#\s*include\b", code) and (match := INCLUDE.match(line)):
                yield number, match[1], match[2]


def read_files(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED and not f.startswith("build-"))
        for path in (pathlib.Path(folder, name) for name in sorted(names) if name not in SKIPPED):
            if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_READ:
                continue
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
            if "\0" not in text:
                yield File(root, path, text)


def check_arrows(file, root):
    if not file.in_src or not file.cpp or file.room in SEES_ALL:
        return
    if file.room not in ALLOWED:
        yield 1, f"room {file.room}/ is unknown; add it to ALLOWED in tests/tidy/check.py"
        return
    for number, bracket, target in file.includes():
        first = target.split("/")[0]
        if bracket == "<" and not (first in ALLOWED and (root / "src" / target).is_file()):
            continue
        if first == ".." or "/" not in target:
            yield number, f'"{target}" names no room; include "room/{pathlib.Path(target).name}"'
        elif first != file.room and not {first, target} & ALLOWED[file.room]:
            may = ", ".join(sorted(ALLOWED[file.room])) or "no other room"
            yield number, f"{file.room}/ may not include {target}; it may include {may}"


def check_banned(file, _root):
    for number, code in enumerate(file.code if file.in_src else [], 1):
        for pattern, name, instead in BANNED:
            if pattern.search(code):
                yield number, f"{name} is banned; {instead}"


def check_owners(file, _root):
    """Whose something is, is asked in one place."""
    if file.room != "api" or file.name.endswith(("/own.cpp", "_test.cpp")):
        return
    for number, code in enumerate(file.code, 1):
        if match := BY_NAME.search(code):
            yield number, (f"{match[0]}…) may find what is another tenant's; use the functions of "
                           "api/own.cpp")


def check_lines(file, _root):
    narrow = file.cpp or file.python or file.shell
    for number, line in enumerate(file.lines, 1):
        if narrow and len(line) > MAX_LINE:
            yield number, f"{len(line)} characters; break the line at {MAX_LINE}"
        if match := LEFTOVER.search(line):
            yield number, f"leftover {match[0]}; do it, or say TODO(soon|someday|perf|security)"
        if ALLOW_PATH in line:
            continue
        if match := MACHINE_PATH.search(line):
            yield number, (f"{match[0]} is a path of a development machine; make it relative, "
                           f"or mark the line with '{ALLOW_PATH}'")
        if match := REGISTRY.search(line):
            yield number, (f"names a registry ({match[0].strip()}); leave it to the user's "
                           f"configuration, or mark the line with '{ALLOW_PATH}'")


def check_head(file, _root):
    if not file.cpp:
        return
    if not file.text.startswith("// SPDX-License-Identifier: "):
        yield 1, "no licence line; begin with // SPDX-License-Identifier: Apache-2.0"
    if file.path.suffix == ".h" and "#pragma once" not in (line.strip() for line in file.code):
        yield 1, "header without #pragma once; add it below the opening comment"


def check_own_header(file, root):
    own = file.path.with_suffix(".h")
    if not file.in_src or file.path.suffix != ".cpp" or not own.exists():
        return
    wanted = own.relative_to(root / "src").as_posix()
    number, _, first = next(file.includes(), (1, "", "nothing"))
    if first != wanted:
        yield number, f'first include is {first}; include "{wanted}" first'


def check_links(file, root):
    name = file.name
    if not (name in ("README.md", "src/README.md") or re.fullmatch(r"docs/.*\.md", name)):
        return
    fenced = False
    for number, line in enumerate(file.lines, 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        if fenced:
            continue
        for match in LINK.finditer(re.sub(r"`[^`]*`", "``", line)):
            target = unquote((match[1] or match[2]).split("#")[0])
            if not target or re.match(r"(?:https?|mailto):", target):
                continue
            base = root if target.startswith("/") else file.path.parent
            found = (base / target.lstrip("/")).resolve()
            if not found.exists() or not found.is_relative_to(root.resolve()):
                yield number, f"link to {target}, which is not there; fix or remove it"


def check_shell(file, _root):
    if not file.shell:
        return
    steps = ((n, line) for n, line in enumerate(file.lines, 1) if re.match(r"\s*[^\s#]", line))
    number, first = next(steps, (1, ""))
    if not re.fullmatch(r"set -eu(?:o pipefail)?\s*(?:#.*)?", first):
        yield number, "shell script without a net; put `set -eu` below its header comment"


def classify(head):
    """What a brace opens, told by the code before it: (scope | function | part | other, name)."""
    if re.search(r"\)\s*(?:noexcept\s*)?:(?!:).*[\w>]\s*$", head, re.S):
        return "part", ""  # of a constructor's list: b_{b}
    head = re.sub(r"\[\[.*?\]\]|\b(?:alignas|__attribute__)\s*\(+[^()]*\)+", " ", head, flags=re.S)
    head = re.sub(r"^\s*template\s*<.*?>(?=\s*[\w:~])", " ", head, flags=re.S)
    head = re.sub(r"\b(?:public|private|protected)\s*:(?!:)", " ", head).strip()
    if re.match(r"(?:inline\s+)?namespace\b|extern\s*\"[^\"]*\"$", head):
        return "scope", ""
    match = re.match(r"(?:typedef\s+)?(?:class|struct|union)\b\s*([\w:]*)", head)
    if match and not re.search(r"\)[\s\w]*$", head):  # what ends in ) is a function
        return "scope", match[1]
    if match := re.search(r"(\w+)\s*=\s*\[", head):
        return "function", match[1]
    match = re.search(r"([\w:~]*operator\s*(?:\(\s*\)|[^\s\w(]+|[\w\s&*]+)|[\w:~]+)\s*\(", head)
    if not match or "=" in head[:match.start()]:
        return "other", ""
    if re.match(r"TEST(?:_[FP])?$|BENCHMARK", match[1]):
        return "function", re.sub(r"\s*,\s*", ".", head[match.end():].split(")")[0].strip())
    return "function", re.sub(r"\s+", "", match[1])


def cpp_functions(code):
    """(name, first line, lines) of each outermost function; what is inside counts as its own."""
    text = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: "\n" * m[0].count("\n"), code, flags=re.M)
    scopes, start, parens = [], 0, 0  # scopes: (kind, name, where its head starts)
    for match in re.finditer(r"[{}();]", text):
        token, at = match[0], match.start()
        outside = not scopes or scopes[-1][0] == "scope"
        if token in "()" and outside:
            parens = max(0, parens + (1 if token == "(" else -1))
        elif token == ";" and outside and not parens:
            start = at + 1
        elif token == "{":
            kind, name = classify(text[start:at]) if outside and not parens else ("part", "")
            scopes.append((kind, name, start))
            start = start if kind == "part" else at + 1
        elif token == "}" and scopes:
            kind, name, began = scopes.pop()
            if kind == "function":
                first = text.count("\n", 0, began + len(re.match(r"\s*", text[began:])[0])) + 1
                prefix = "".join(s[1] + "::" for s in scopes if s[1])
                yield prefix + name, first, text.count("\n", 0, at) + 2 - first
            if kind != "part":
                start = at + 1


def measure(files):
    """{key: (lines, file, line)} of all that is longer than it should be."""
    found = {}
    for file in files:
        if not (file.cpp or file.python):
            continue
        functions = list(cpp_functions("\n".join(file.code)))
        if file.python:
            functions = [(node.name, node.lineno, node.end_lineno + 1 - node.lineno)
                         for node in ast.walk(ast.parse(file.text, file.name))
                         if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        found[file.name] = (len(file.lines), file.name, 1)
        for name, line, lines in functions:
            key = f"{file.name} {name}"
            found[key] = max(found.get(key, (0,)), (lines, file.name, line))
    return {k: v for k, v in found.items() if v[0] > (MAX_FUNCTION if " " in k else MAX_FILE)}


def check_ratchet(files, root, update):
    path, today = root / RATCHET, measure(files)
    known = json.loads(path.read_text()) if path.exists() else None
    if update:
        start = {k: v[0] for k, v in today.items()} if known is None else known
        known = {k: min(v, today[k][0]) for k, v in start.items() if k in today}
        path.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")
    known = known or {}
    for key, (lines, name, line) in today.items():
        limit = known.get(key) or (MAX_FUNCTION if " " in key else MAX_FILE)
        if lines > limit:
            yield f"{name}:{line}: {key} has {lines} lines, more than {limit}; split it"
    for key, lines in known.items():
        if today.get(key, (0,))[0] < lines:
            yield f"{RATCHET}:1: {key} is shorter than {lines} now; run check.py --update"


RULES = [check_arrows, check_lines, check_banned, check_owners, check_head, check_own_header,
         check_links, check_shell]


def run(root, update=False):
    """Every broken rule below `root`, as printable lines."""
    files = list(read_files(root))
    problems = [f"{file.name}:{number}: {text}"
                for file in files for rule in RULES for number, text in rule(file, root)]
    return problems + list(check_ratchet(files, root, update))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Checks the house rules.")
    parser.add_argument("--update", action="store_true", help="lower the ratchet to what shrank")
    broken = run(pathlib.Path(__file__).resolve().parents[2], parser.parse_args().update)
    print("\n".join(broken) or "tidy: all rules hold")
    sys.exit(bool(broken))

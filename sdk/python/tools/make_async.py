# SPDX-License-Identifier: Apache-2.0
"""Writes the asynchronous classes from the blocking ones: `run(x)` becomes `await x`.

python tools/make_async.py           writes them
python tools/make_async.py --check   exit 1 when they are not what it would write
"""

import pathlib
import re
import shutil
import subprocess
import sys

PACKAGE = pathlib.Path(__file__).resolve().parent.parent / "src" / "threadbox"
FILES = {
    "_sync.py": "_async.py",
    "_files.py": "_async_files.py",
    "_processes.py": "_async_processes.py",
    "_shells.py": "_async_shells.py",
    "_storage.py": "_async_storage.py",
    "_code.py": "_async_code.py",
}
CLASSES = [
    "Artifacts",
    "Attachment",
    "BatchSandboxClient",
    "Code",
    "CodeContext",
    "Files",
    "Process",
    "Processes",
    "SandboxClient",
    "Session",
    "Shell",
    "Shells",
    "Volumes",
]
WORDS = [
    (r"The blocking client", "The client for asyncio"),
    (r"for blocking callers", "for asyncio"),
    (r"^( +)for event in ", r"\1async for event in "),
    (r"^( {8})(result = )?client\.", r"\1\2await client."),
    (r"``with`` closes", "``async with`` closes"),
    (r"A ``KeyboardInterrupt`` kills", "Cancelling the task kills"),
    (r"or interrupting it, kills", "or cancelling it, kills"),
    (r"Blocks until", "Waits until"),
    (r"One client may be used by many threads", "One client may serve many tasks of one loop"),
    (r"a session that a thread \(or asyncio task\) has", "a session that a task has"),
    (r"One thread may receive while", "One task may receive while"),
    (r"Safe to hand to another thread", "Safe to hand to other tasks"),
    (r"make_engine\(chosen, True,", "make_engine(chosen, False,"),
    (r"import Generator, Mapping", "import AsyncGenerator, Mapping"),
    (r"import Generator, Sequence", "import AsyncGenerator, Sequence"),
    (r"-> Generator\[(.+), None, None\]:", r"-> AsyncGenerator[\1, None]:"),
    (r"__(enter|exit|iter)__", r"__a\1__"),
    (r"    def __aenter__", "    async def __aenter__"),
    (r"from \._(code|files|processes|shells|storage) import", r"from ._async_\1 import"),
    (r"\biterate\((.*)\)\n", r"\1\n"),
]  # fmt: skip


def await_runs(text: str) -> str:
    """`run(x)` -> `await x`, whatever x contains."""
    found = re.search(r"(?<![\w.])(?<!def )run\(", text)
    if found is None:
        return text
    end, depth = found.end(), 1
    while depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    inner = await_runs(text[found.end() : end - 1])
    return text[: found.start()] + "await " + inner + await_runs(text[end:])


def make_functions_async(text: str) -> str:
    """Those that await something."""
    lines = text.split("\n")
    heads = [i for i, line in enumerate(lines) if re.match(r"(    )?def ", line)]
    for begin, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        if any(
            "await " in line
            for line in lines[begin:end]
            if not line.startswith("        await client.")
        ):
            lines[begin] = lines[begin].replace("def ", "async def ", 1)
    return "\n".join(lines)


def convert(text: str, source: str) -> str:
    text = await_runs(text)
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    text = make_functions_async(text)
    for name in CLASSES:
        text = re.sub(rf"\b{name}\b", f"Async{name}", text)
    note = f"# Made from {source} by tools/make_async.py: change that file, not this one.\n"
    first, rest = text.split("\n", 1)
    return first + "\n" + note + rest


def formatted(text: str) -> str:
    ruff = shutil.which("ruff") or str(pathlib.Path(sys.executable).with_name("ruff"))
    for command in (["check", "-q", "--fix", "--select", "I,F401"], ["format", "-q"]):
        name = ["--stdin-filename", str(PACKAGE / "_async.py"), "-"]
        done = subprocess.run(
            [ruff, *command, *name], input=text, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise SystemExit(done.stdout + done.stderr)
        text = done.stdout
    return text


def main() -> int:
    stale = 0
    for source, target in FILES.items():
        wanted = formatted(convert((PACKAGE / source).read_text(), source))
        path = PACKAGE / target
        if path.exists() and path.read_text() == wanted:
            continue
        if "--check" in sys.argv:
            print(f"{target} is not what {source} makes: run tools/make_async.py")
            stale = 1
        else:
            path.write_text(wanted)
            print(f"wrote {target}")
    return stale


if __name__ == "__main__":
    sys.exit(main())

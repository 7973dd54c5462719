#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the man page and the completions from what the program says about itself.

generate.py [BINARY]           writes them; BINARY is build/threadbox unless told
generate.py --check [BINARY]   only says which of them are out of date; exit 1 then
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = """\
.TP
.I /etc/threadbox/threadbox.conf
settings of the services of the Debian package
.TP
.I /var/lib/threadbox
the state, unless
.B STATE_DIR
says otherwise
.TP
.I /run/threadbox/slots
which uids sandboxes of this machine have
"""
SIGNALS = """\
.TP
.B SIGTERM\\fR, \\fBSIGINT
The server ends; its sandboxes live on, and the next server takes them over. To the keeper: it ends
all sandboxes and itself, and the server ends with it.
.TP
.B SIGHUP
The server reads
.B REGISTRY_DIR
and the files of its certificate and its limits again.
.TP
.B SIGUSR1\\fR, \\fBSIGUSR2
The server logs all that is worth a line; and again what
.B LOG_LEVEL
says.
"""
STATUS = """\
0, or 1 with the reason on standard error.
.B doctor
ends with 1 when a barrier is degraded, with 2 when one is missing, and with 3 when no sandbox can
be made.
.B run
ends with the status of its command.
"""
# What completes the value of an option, by its name.
VALUES = {"log-level": "debug info warning error off", "default-policy": "strict wide open",
          "debug": "true false", "log-json": "0 1", "log-commands": "true false",
          "allow-no-auth": "0 1", "aggressive-cleanup": "true false",
          "webhook-allow-private": "true false", "tls-client-certs": "required optional"}
PATHS = ("config", "docker")


class Command:
    def __init__(self, name, summary, text):
        self.name, self.summary = name, summary
        rows = help_rows(text, "Options")
        # "--rounds UINT [300]" is the option with its value.
        self.options = [(left, right) for left, right in rows if "--help" not in left]
        self.positionals = help_rows(text, "Positionals")
        self.below = [one for one, _ in help_rows(text, "Subcommands")]

    def flags(self):
        return [re.search(r"--([\w-]+)", left)[1] for left, _ in self.options]


def help_rows(text, title):
    """(what, description) of each row below a title of the program's help."""
    part = re.search(rf"^{title}:\n((?:  .*\n)+)", text, re.M)
    rows = []
    for line in part[1].splitlines() if part else []:
        if line.startswith(" " * 8):
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}".strip())
            continue
        left, _, right = line.strip().partition("  ")
        rows.append((left, right.strip()))
    return rows


def ask(binary, *words):
    return subprocess.run([binary, *words], check=True, text=True, capture_output=True).stdout


def commands_of(binary, *above, nested=False):
    """With `nested`, those of `keys` are there as `keys create` and the like."""
    found = []
    for name, summary in help_rows(ask(binary, *above, "--help"), "Subcommands"):
        text = ask(binary, *above, name, "--help")
        found.append(Command(" ".join((*above, name)), summary, text))
        if nested and found[-1].below:
            found += commands_of(binary, *above, name)
    return found


def settings_of(binary):
    """(name, default, meaning) of the table of `serve --help`."""
    return re.findall(r"^  ([A-Z][A-Z_]+) +(\S+) +(.*)$", ask(binary, "serve", "--help"), re.M)


def flag_of(name):
    """Secrets have none: everybody could read them in a list of processes."""
    secret = name.endswith(("_SECRET", "_PASSWORD", "_KEY", "_TOKEN"))
    return None if secret else name.lower().replace("_", "-")


# ---- the man page ----

def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def man_page(version, commands, settings):
    out = [f'.TH THREADBOX 1 "" "threadbox {version}" "User Commands"', ".SH NAME",
           "threadbox \\- isolated, persistent sandboxes for conversations of agents",
           ".SH SYNOPSIS", ".B threadbox", ".I command", "[\\fIoption\\fR]...",
           ".SH DESCRIPTION",
           "A server gives every thread a sandbox of its own: a box made by the kernel, in which",
           "commands run and whose files stay. A keeper holds the boxes, so that they outlive the",
           "server.", ".SH COMMANDS"]
    for command in commands:
        words = " ".join(name for name, _ in command.positionals)
        out += [".TP", f"\\fB{roff(command.name)}\\fR" + (f" \\fI{roff(words.split()[0])}\\fR"
                                                         if words else ""), roff(command.summary)]
        if command.options:
            out.append(".RS")
            for left, right in command.options:
                out += [".TP", f"\\fB{roff(left)}\\fR", roff(right)]
            out.append(".RE")
    out += [".SH SETTINGS",
            "In the order in which they count: lines of the file that",
            "\\fB\\-\\-config\\fR or the variable \\fBTHREADBOX_CONFIG\\fR names, as NAME=VALUE;",
            "variables of the environment; options, as \\fB\\-\\-pool\\-size 5\\fR for POOL_SIZE.",
            "What is empty is not set. The default stands in brackets."]
    for name, default, meaning in settings:
        out += [".TP", f"\\fB{name}\\fR [{roff(default)}]", roff(meaning)]
    out += [".SH SIGNALS", SIGNALS.rstrip(), ".SH FILES", FILES.rstrip(), ".SH EXIT STATUS",
            STATUS.rstrip(), ""]
    return "\n".join(out)


# ---- completions ----

def completed_flags(command, settings):
    """Of a command that has settings, those too."""
    flags = list(command.flags())
    if "config" in flags and command.name != "keeper":
        flags += [flag for name, *_ in settings if (flag := flag_of(name)) and flag not in flags]
    return flags


def bash_completion(commands, settings):
    cases, values = [], []
    for command in commands:
        flags = ["--" + flag for flag in [*completed_flags(command, settings), "help"]]
        cases.append(f'    {command.name}) words="{" ".join(command.below + flags)}" ;;')
    for flag, words in sorted(VALUES.items()):
        values.append(f'    --{flag}) words="{words}" ;;')
    cases, values = "\n".join(cases), "\n".join(values)
    paths = "|".join(f"--{flag}" for flag in PATHS)
    names = " ".join(c.name for c in commands)
    return f"""\
# bash completion of threadbox; made by deploy/generate.py.
_threadbox() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="" words=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -le 1 ]; then
    COMPREPLY=($(compgen -W "{names} --help" -- "$current"))
    return
  fi
  previous="${{COMP_WORDS[COMP_CWORD - 1]}}"
  case "$previous" in
{values}
    {paths}|--*-file|--*-dir)
      COMPREPLY=($(compgen -f -- "$current"))
      return
      ;;
  esac
  [ -n "$words" ] || case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -F _threadbox threadbox
"""


def zsh_word(text):
    return re.sub(r"([\[\]:])", r"\\\1", text).replace("'", "'\\''")


def zsh_option(flag, meaning, takes_value):
    if not takes_value:
        return f"'--{flag}[{zsh_word(meaning)}]'"
    action = f"({VALUES[flag]})" if flag in VALUES else \
        "_files" if flag in PATHS or flag.endswith(("-file", "-dir")) else ""
    return f"'--{flag}=[{zsh_word(meaning)}]:value:{action}'"


def zsh_completion(commands, settings):
    meanings = {flag_of(name): meaning for name, _, meaning in settings}
    names = "\n".join(f"    '{c.name}:{zsh_word(c.summary)}'" for c in commands)
    cases = ""
    for command in commands:
        own = {re.search(r"--([\w-]+)", left)[1]: (right, " " in left)
               for left, right in command.options}
        rows = [zsh_option(flag, *own.get(flag, (meanings.get(flag), True)))
                for flag in completed_flags(command, settings)]
        cases += f"    {command.name})\n      _arguments \\\n"
        cases += "".join(f"        {row} \\\n" for row in rows) + "        '--help[show help]'\n"
        cases += "      ;;\n"
    return f"""\
#compdef threadbox
# zsh completion of threadbox; made by deploy/generate.py.
_threadbox() {{
  local -a commands
  commands=(
{names}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local name=$words[2]
  shift words
  (( CURRENT-- ))
  case $name in
{cases}  esac
}}
_threadbox "$@"
"""


def made_from(binary):
    commands, settings = commands_of(binary), settings_of(binary)
    version = ask(binary, "version").split()[1]
    every = commands_of(binary, nested=True)
    return {ROOT / "docs/man/threadbox.1": man_page(version, every, settings),
            ROOT / "deploy/completions/threadbox.bash": bash_completion(commands, settings),
            ROOT / "deploy/completions/_threadbox": zsh_completion(commands, settings)}


def main():
    words = [word for word in sys.argv[1:] if word != "--check"]
    binary = words[0] if words else str(ROOT / "build/threadbox")
    stale = {path: text for path, text in made_from(binary).items()
             if not path.exists() or path.read_text() != text}
    for path, text in stale.items():
        if "--check" in sys.argv:
            print(f"{path.relative_to(ROOT)} is out of date: run deploy/generate.py")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Shells that were started ahead of their command: how one is found, and commands that must not be
able to tell."""
import contextlib
import re

from server import Server, argv_of, read_text, wait_until

TITLE = ["bash: started ahead, waits for a command"]
COPIED = ["bash: started ahead, copied for commands"]


def waiting(server, session):
    """The shell that waits in a session, as the host sees it."""
    return next((p for p in server.sandbox_pids(session, True) if argv_of(p) == TITLE), None)


def original(server, session):
    """The shell that others are copied from, as the host sees it."""
    return next((p for p in server.sandbox_pids(session, True) if argv_of(p) == COPIED), None)


def wait_for_original(server, session):
    return wait_until(lambda: original(server, session), "there is one to be copied")


@contextlib.contextmanager
def serving(**settings):
    """A server of some tests' own."""
    server = Server(**settings)
    try:
        yield server.start()
        server.close()
    finally:
        server.remove()


def wait_for_shell(server, session):
    return wait_until(lambda: waiting(server, session), "a shell waits")


def inside(pid):
    """Its pid in the sandbox."""
    return int(re.search(r"NSpid:.*\s(\d+)\n", read_text(f"/proc/{pid}/status"))[1])


def warm(server, **fields):
    session = server.create()
    server.execute(session, "true", **fields)
    return session


def last_pid(server, session):
    return max(server.processes(session), key=lambda process: process["process_id"])["pid"]


def end_of(answer):
    return {key: answer[key] for key in ("stdout", "stderr", "exit_code", "cause", "timed_out",
                                         "limits_hit", "signal") if key in answer}


# What is different by nature: numbers of pipes, cgroups and processes, times, random ones, the
# session's name.
def same_for_all(text):
    text = re.sub(r"(pipe|socket):\[\d+\]", r"\1", text)
    text = re.sub(r"/c\d+(?=\\n|$)", "/c", text, flags=re.M)
    text = re.sub(r"(line \d+: +)\d+ ", r"\1pid ", text)
    text = re.sub(r"/docker/\w+", "/docker/", text)
    return re.sub(r"box-\w+", "box", text)


# PIPESTATUS is set by what the shell did while it started; nobody asks before a pipeline.
NUMBERS = r"grep -vE '\b(BASHPID|EPOCH\w+|S?RANDOM|SECONDS|PPID|PIPESTATUS)='"
COMMANDS = {
    "environment": "env",
    "exported": "export -p",
    "variables": f"declare -p | {NUMBERS}",
    "set": f"set | {NUMBERS}",
    "initial environment": "tr '\\0' '\\n' < /proc/$$/environ | grep . | sort; :",
    "options": "set -o; shopt; echo $-",
    "names": "trap -p; alias; hash; declare -F; enable -a; type -a bash",
    "limits": "ulimit -a; ulimit -Ha; umask; nice; cat /proc/self/oom_score_adj",
    "special": 'echo "$_ $0 $# $? [$!] $SECONDS $SHLVL $PPID ${DIRSTACK[*]}"',
    "places": 'echo $LINENO; echo $LINENO ${BASH_SOURCE[@]} ${FUNCNAME[@]} ${BASH_ARGV[@]}\ncaller',
    "text": 'echo "$BASH_EXECUTION_STRING|$BASH_SUBSHELL|$BASH_ENV|$BASH_COMMAND"',
    "identity": "[ $$ = $BASHPID ] && id; cut -d' ' -f4 /proc/$$/stat; "
                "[ $(cut -d' ' -f5,6 /proc/$$/stat | tr ' ' -) = $$-$$ ] && echo leads",
    "descriptors": "ls /proc/$$/fd; ls -l /proc/self/fd | awk '{print $1, $9, $11}' | grep -v proc",
    "signals": "grep -E '^(Sig|Shd|Cap|NoNew|Secc|Uid|Gid|Groups|Umask|Thr)' /proc/self/status",
    "signals of the shell": "while read -r x; do [[ $x =~ ^(Sig|Shd|Cap|NoNew|Secc|Thr) ]] "
                            "&& echo $x; done < /proc/$$/status",
    "cgroup": "cat /proc/self/cgroup",
    "as ps shows it": "ps -o args= -p $$; ps -o comm= -p $$; :",
    "no syntax": "echo a\n\nif then",
    "unbalanced": "echo 'open",
    "not found": "no-such-program",
    "not found later": "true\n\nno-such-program; echo $?",
    "division": "echo $((1/0)); echo after",
    "unset": "set -u; echo $nope; echo after",
    "parameter": "echo ${x?is missing}",
    "fails": "set -e; false; echo not here",
    "exit": "trap 'echo bye $?' EXIT; exit 7",
    "killed": "kill -9 $$",
    "terminated": "kill -TERM $$; echo not here",
    "aborted child": "bash -c 'kill -ABRT $$'; echo $?",
    "killed subshell": "(kill -9 $BASHPID); echo $?",
    "killed pipe": "sleep 60 | kill -SEGV 0",
    "last is executed": "sh -c 'cut -d\" \" -f4 /proc/$$/stat'",
    "replaced": "exec -a name cat /proc/self/comm",
    "redirected": "exec 7>x; echo hello >&7; exec 7>&-; cat x; ls /proc/$$/fd",
    "here": "cat <<END\n$((6*7)) $HOME\nEND\ncat <<< word",
    "long": "x=" + "y" * 100_000 + "; echo ${#x}",
    "too long": "x=" + "y" * 130_000 + "; echo ${#x}",
    "bytes": "printf '\\xff\\x00\\x01é漢' | od -c; echo é漢 >&2",
    "background": "sleep 0.1 & jobs; wait; echo $?; jobs",
    "coprocess": "coproc cat; echo hi >&${COPROC[1]}; read -u ${COPROC[0]} x; echo $x",
    "substitution": "cat <(echo a) <(echo b); echo $(echo $BASHPID | wc -l)",
    "script": "printf 'echo $0 $SHLVL $BASH_ENV $_\\n' > s; chmod +x s; ./s; bash ./s; . ./s",
    "inner": "bash -c 'echo $0 $- $SHLVL $BASH_ENV $_'; sh -c 'echo $0 $-'",
    "select": "cd /tmp; echo $PWD $OLDPWD; cd -; dirs; pushd / ; popd",
    "trapped": "trap 'echo got' USR1; kill -USR1 $$; trap -p",
    "built in": "help bash; enable -d bash; enable -f /dev/fd/3 bash",
    "times": "times | wc -l; history; fc -l",
}

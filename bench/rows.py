# SPDX-License-Identifier: Apache-2.0
"""The rows of the table: which series are compared, by what, and what is asked for."""
import dataclasses

import stats

# How a row's measure is made of ours and theirs, and whether less of it is better.
KINDS = {
    "ratio": (lambda ours, theirs: ours / theirs, True),    # times: ours is so many of theirs
    "factor": (lambda ours, theirs: theirs / ours, False),  # ours is so many times better
    "share": (lambda ours, theirs: ours / theirs, False),   # speeds: ours is so much of theirs
    "limit": (lambda ours, theirs: ours, True),             # ours alone, at most
    "count": (lambda ours, theirs: ours, False),            # ours alone, at least
}
FULL = {"sessions": 10_000, "commands": 1_000_000, "churn": 100_000}


@dataclasses.dataclass
class Row:
    id: str
    title: str
    ours: str
    theirs: str | None
    statistic: str  # p50, or p99/p50 for ours and theirs
    kind: str
    asked: float | None = None
    # It is asked for with this option at its full size; smaller runs show the figure only.
    needs: str = ""

    @property
    def statistics(self):
        first, _, second = self.statistic.partition("/")
        return first, second or first

    def measure(self, ours, theirs):
        return KINDS[self.kind][0](ours, theirs)

    @property
    def less_is_better(self):
        return KINDS[self.kind][1]

    def holds(self, measured):
        if self.asked is None:
            return None
        return measured <= self.asked if self.less_is_better else measured >= self.asked


def request_rows():
    for name, command, kind, statistic, asked in [
            ("true", "true", "shells ahead", "p50", 0.45),
            ("true", "true", "shells ahead", "p99", 1.5),
            ("cat", "cat f", "shells ahead", "p50", 0.8),
            ("cat", "cat f", "shells ahead", "p99", None),
            ("true", "true", "PRESTART_SECONDS=0", "p50", 1.35),
            ("true", "true", "PRESTART_SECONDS=0", "p99", 1.8),
            ("cat", "cat f", "PRESTART_SECONDS=0", "p50", None),
            ("true", "true", "default CPU_QUOTA", "p50", None),
            ("true", "true", "default CPU_QUOTA", "p99", None)]:
        tag = kind.split("=")[0].replace(" ", "-").lower()
        yield Row(f"execute-{name}-{statistic}-{tag}", f"/execute `{command}`, {kind}",
                  f"/execute {command}, {kind}", f"bare {command}, beside {kind}", statistic,
                  "ratio", asked)
    yield Row("execute-back-to-back", "/execute `true`, one right after the other",
              "/execute true, back to back", "bare true, back to back", "p50", "ratio")
    bare = "bare true, beside the engine"
    yield Row("engine-true", "local engine, `true`", "engine true, shells ahead", bare, "p50",
              "ratio", 0.35)
    yield Row("engine-true-fresh", "local engine, `true`, PRESTART_SECONDS=0",
              "engine true, PRESTART_SECONDS=0", bare, "p50", "ratio", 1.25)
    yield Row("python-call", "a call of a live Python context", "second Python call over HTTP",
              "bare bash -c true, beside code", "p50", "ratio")


def machine_rows():
    yield Row("throughput", "commands/s of 50 sessions, by a bare loop on each core",
              "/execute, 50 sessions", "bare bash -c true, a loop on each core", "mean", "share",
              0.65)
    yield Row("first-output", "create to first output, pooled",
              "create to first output, pooled, over HTTP", "bare, beside pooled create", "p50",
              "ratio", 1.5)
    yield Row("rush", "the same, 100 at once, POOL_SIZE=100: p99 by one bare p50",
              "first output, rush of 100, POOL_SIZE=100", "bare true, beside the rush", "p99/p50",
              "ratio", 90)
    for way in ("upload", "download"):
        yield Row(way, f"{way} of 100 MB, by nginx", f"{way} 100 MB", f"nginx {way} 100 MB", "p50",
                  "share", 0.8)
    yield Row("transfer-memory", "server and keeper, what 100 MB add to their peak",
              "memory that transfers add", None, "p99", "limit", 8192)


def docker_rows():
    for name, title, asked in (("exec", "exec `true`", 25), ("create", "create", 100),
                               ("memory", "memory of an idle session (asleep)", 25),
                               ("memory awake", "memory of an awake session", None)):
        yield Row(f"docker-{name.replace(' ', '-')}", f"Docker Engine API: {title}",
                  f"{name}, beside Docker", f"Docker {name.split()[0]}", "p50", "factor", asked)
    for name in ("create", "create without a pool", "create, threads that stay", "execute",
                 "upload", "download", "list"):
        tag = name.replace(",", "").replace(" ", "-")
        yield Row(f"fastapi-{tag}", f"FastAPI + Docker server: {name}",
                  f"{name}, beside FastAPI", f"FastAPI {name}", "p50", "factor", 20)
    yield Row("fastapi-create-bound",
              "FastAPI + Docker server: create, by a server that does nothing",
              "create by nobody, beside FastAPI", "FastAPI create", "p50", "factor")


def peer_rows():
    for peer in ("runc", "crun", "podman", "llm-sandbox"):
        yield Row(f"{peer}-exec", f"{peer}: exec `true`", f"exec, beside {peer}", f"{peer} exec",
                  "p50", "factor")
    for peer in ("bubblewrap", "runc", "crun", "podman", "llm-sandbox"):
        yield Row(f"{peer}-run", f"{peer}: new sandbox, `true` in it, its end",
                  f"run, beside {peer}", f"{peer} run", "p50", "factor")


def part_rows(state):
    """Of what a session takes, who holds it."""
    title = {"idle": "an idle session (asleep)", "awake": "an awake session"}[state]
    for part, where in (("server", "server and keeper"), ("PID 1", "its PID 1"),
                        ("kernel", "the kernel"),
                        ("cgroup", "what its memory cgroup is charged")):
        yield Row(f"{state}-{part.lower().replace(' ', '-')}", f"of {title}, {where}",
                  f"{state} session, {part}", None, "p50", "limit")


def density_rows(options, cgroup_version):
    limit = 400 if cgroup_version == 2 else 640
    n = options.sessions
    yield Row("idle", f"idle session (asleep), everything counted (cgroup v{cgroup_version})",
              "idle session", None, "p50", "limit", limit)
    yield Row("idle-vm", "idle session (asleep), cgroup v2 only, in a VM",
              "idle session (VM)", None, "p50", "limit", 400)
    yield Row("idle-used", "idle session (asleep again), after a command",
              "idle session, used", None, "p50", "limit")
    yield Row("awake", f"awake session, everything counted (cgroup v{cgroup_version})",
              "awake session", None, "p50", "limit")
    yield Row("awake-vm", "awake session, cgroup v2 only, in a VM",
              "awake session (VM)", None, "p50", "limit")
    yield Row("awake-used", "awake session, after a command, its shell gone", "awake session, used",
              None, "p50", "limit")
    for state in ("idle", "awake"):
        yield from part_rows(state)
    yield Row("awake-waiting", "what a shell that waits for a command adds", "waiting shell", None,
              "p50", "limit")
    yield Row("live", "sessions at once, idle ones asleep, all answering", "live sessions", None,
              "p50", "count", FULL["sessions"], "sessions")
    yield Row("live-p99", f"one command in each of {n:,} sleeping sessions, which wakes it",
              "exec in each session", None, "p99", "limit", 50_000, "sessions")
    yield Row("growth", f"/execute `true` in 10 sessions among {n:,}, by alone",
              "exec among many", "exec among ten", "p50", "ratio", 1.3, "sessions")


def leak_rows(options):
    what = f"after {options.commands:,} commands, {options.churn:,} sessions"
    yield Row("leak-memory", f"server's memory {what}", "server memory after",
              "server memory before", "p50", "ratio", 1.1, "commands")
    yield Row("leak-keeper", f"keeper's memory {what}", "keeper memory after",
              "keeper memory before", "p50", "ratio", 1.1, "commands")
    yield Row("leak-left", f"descriptors, mounts, cgroups, files, processes left {what}",
              "things left", None, "p50", "limit", 0, "commands")


def all_rows(options, cgroup_version):
    return [*request_rows(), *machine_rows(), *docker_rows(), *peer_rows(),
            *density_rows(options, cgroup_version), *leak_rows(options)]


def judged(row, series, options):
    """What the run says of a row, as it stands in the JSON; None when a series is missing."""
    ours, theirs = series.get(row.ours), series.get(row.theirs or "")
    if not ours or (row.theirs and not theirs):
        return None
    first, second = row.statistics
    ours_value = ours.value(first)
    theirs_value = theirs.value(second) if row.theirs else None
    measured = row.measure(ours_value, theirs_value)
    spread = None
    if len(ours.samples) > 1:
        other = theirs.samples if row.theirs else None
        pairs = stats.drawn(ours.samples, other, row.statistics)
        spread = stats.interval([row.measure(*pair) for pair in pairs])
    full = not row.needs or getattr(options, row.needs) >= FULL[row.needs]
    return {"id": row.id, "title": row.title, "ours": row.ours, "theirs": row.theirs,
            "statistic": row.statistic, "kind": row.kind, "unit": ours.unit,
            "ours_value": ours_value, "theirs_value": theirs_value, "measure": measured,
            "interval": spread, "asked": row.asked,
            "held": row.holds(measured) if full else None,
            "note": "" if full else f"asked for with --{row.needs} {FULL[row.needs]}"}

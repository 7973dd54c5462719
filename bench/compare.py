# SPDX-License-Identifier: Apache-2.0
"""Two runs, row by row: by how much the ratio of ratios moved, and how much of that is noise."""
import dataclasses

import rows as rows_of
import stats

# What two runs differ by although nothing changed, beyond what one run can know of itself.
FLOOR, FLOOR_OF_ONE = 0.05, 0.10


@dataclasses.dataclass
class Change:
    id: str
    title: str
    old: float
    new: float
    times: float  # what it costs now by what it cost; above 1 is worse
    low: float
    high: float
    verdict: str  # worse, better, same

    def line(self):
        return (f"{self.verdict:7} {self.times:6.3f}  {self.low:6.3f} … {self.high:6.3f}  "
                f"{self.old:10.3f} → {self.new:<10.3f} {self.title}")


def costs(run, row, seed):
    """The row's measure, such that less is better, again and again from samples drawn anew."""
    function, less = rows_of.KINDS[row["kind"]]
    ours = run["series"][row["ours"]]["samples"]
    theirs = run["series"][row["theirs"]]["samples"] if row["theirs"] else None
    first, _, second = row["statistic"].partition("/")
    pairs = stats.drawn(ours, theirs, (first, second or first), seed=seed)
    values = [function(*pair) for pair in pairs]
    return values if less else [1 / value for value in values]


def cost(row):
    return row["measure"] if rows_of.KINDS[row["kind"]][1] else 1 / row["measure"]


def verdict_of(low, high, floor):
    if low > 1 + floor:
        return "worse"
    return "better" if high < 1 / (1 + floor) else "same"


def counted(old, new):
    """Rows that should be 0: things left behind."""
    grew = new["measure"] - old["measure"]
    verdict = "worse" if grew > 0 else "better" if grew < 0 else "same"
    return Change(new["id"], new["title"], old["measure"], new["measure"], 1 + grew, 1 + grew,
                  1 + grew, verdict)


def change(old_run, old, new_run, new):
    if min(old["measure"], new["measure"]) <= 0:
        return counted(old, new)
    times = cost(new) / cost(old)
    floor = FLOOR_OF_ONE
    low = high = times
    if old["interval"] and new["interval"]:
        floor = FLOOR
        before, after = costs(old_run, old, 1), costs(new_run, new, 2)
        usable = [b / a for a, b in zip(before, after) if a > 0 and b > 0]
        low, high = stats.interval(usable or [times])
    return Change(new["id"], new["title"], old["measure"], new["measure"], times, low, high,
                  verdict_of(low, high, floor))


def compared(old_run, new_run):
    """(changes, ids that only one of them has)."""
    old = {row["id"]: row for row in old_run["rows"]}
    new = {row["id"]: row for row in new_run["rows"]}
    changes = [change(old_run, old[name], new_run, row) for name, row in new.items()
               if name in old and row["kind"] == old[name]["kind"]]
    return changes, sorted(set(old) ^ set(new))


def told(old_run, new_run):
    """The text, and whether anything got worse beyond noise."""
    changes, alone = compared(old_run, new_run)
    lines = ["         times     95 of 100            old → new        row  "
             "(times: what it costs now by what it cost)"]
    lines += [one.line() for one in changes]
    if alone:
        lines.append(f"in one of the runs only: {', '.join(alone)}")
    for key in ("processor", "cores", "kernel", "cgroup"):
        if old_run["machine"][key] != new_run["machine"][key]:
            lines.append(f"not the same machine: {key} {old_run['machine'][key]} → "
                         f"{new_run['machine'][key]}")
    worse = [one for one in changes if one.verdict == "worse"]
    lines.append(f"{len(worse)} worse, {sum(one.verdict == 'better' for one in changes)} better, "
                 f"{sum(one.verdict == 'same' for one in changes)} the same")
    return "\n".join(lines) + "\n", bool(worse)

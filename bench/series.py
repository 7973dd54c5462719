# SPDX-License-Identifier: Apache-2.0
"""What was measured, by name, and what could not be, with the reason."""
import time

import stats


class Series:
    """Samples in the order of time: `us` are times, all else is a figure in that unit."""

    def __init__(self, unit, samples=()):
        self.unit = unit
        self.samples = list(samples)

    def value(self, statistic):
        return stats.value_of(self.samples, statistic)

    def to_json(self):
        kept = stats.thinned(self.samples)
        told = {"unit": self.unit, "count": len(self.samples),
                "samples": [float(f"{sample:.6g}") for sample in kept]}
        for p in (5, 25, 50, 75, 95, 99):
            told[f"p{p}"] = stats.percentile(self.samples, p)
        return told


class Measured:
    def __init__(self, say=lambda text: None):
        self.series, self.skipped, self.details = {}, [], {}
        self.say = say

    def add(self, name, value, unit="us"):
        self.series.setdefault(name, Series(unit)).samples.append(value)

    def extend(self, name, values, unit="us"):
        self.series.setdefault(name, Series(unit)).samples.extend(values)

    def timed(self, name, work):
        """Runs it, keeps the microseconds, and returns what it returned."""
        began = time.perf_counter()
        result = work()
        self.add(name, (time.perf_counter() - began) * 1e6)
        return result

    def skip(self, what, why):
        text = " ".join(str(why).split())[:300]
        self.skipped.append({"what": what, "why": text})
        self.say(f"{what} is left out: {text}")


def in_turns(measured, rounds, works, warmup=2):
    """Each of `works`, a name and a function, once in every round: noise hits all alike."""
    for _ in range(warmup):
        for _, work in works:
            work()
    for _ in range(rounds):
        for name, work in works:
            measured.timed(name, work)

# SPDX-License-Identifier: Apache-2.0
"""Percentiles, and how far chance alone moves what is made of them."""
import math
import random

BLOCKS = 20
DRAWS = 300
KEPT = 2000


def percentile(samples, p):
    """By rank, as `threadbox bench` does."""
    ordered = sorted(samples)
    return ordered[min(max(math.ceil(p / 100 * len(ordered)), 1), len(ordered)) - 1]


def value_of(samples, statistic):
    """`statistic` is mean or p50, p99 …"""
    if statistic == "mean":
        return sum(samples) / len(samples)
    return percentile(samples, float(statistic[1:]))


def thinned(samples, kept=KEPT):
    """At most `kept` of them, evenly over the time in which they were taken."""
    if len(samples) <= kept:
        return list(samples)
    step = len(samples) / kept
    return [samples[int(i * step)] for i in range(kept)]


def blocks_of(samples, count):
    """Pieces of neighbours in time: what disturbs one sample disturbs the next as well, so that
    single samples drawn at random would promise too much."""
    size = max(math.ceil(len(samples) / count), 1)
    return [samples[i:i + size] for i in range(0, len(samples), size)]


def joined(blocks, picked):
    return [sample for i in picked for sample in blocks[i]]


def drawn(ours, theirs, statistics, seed=1, draws=DRAWS):
    """Pairs of values from samples drawn again, block by block. Those of equally many samples
    alternated, so that the same moments are drawn for both. `theirs` may be None."""
    choose = random.Random(seed)
    mine = blocks_of(ours, BLOCKS)
    other = blocks_of(theirs, BLOCKS) if theirs else None
    pairs = []
    for _ in range(draws):
        picked = choose.choices(range(len(mine)), k=len(mine))
        value = value_of(joined(mine, picked), statistics[0])
        if other is None:
            pairs.append((value, None))
            continue
        if len(ours) != len(theirs):
            picked = choose.choices(range(len(other)), k=len(other))
        pairs.append((value, value_of(joined(other, picked), statistics[1])))
    return pairs


def interval(values):
    """Of 95 of 100."""
    ordered = sorted(values)
    return [percentile(ordered, 2.5), percentile(ordered, 97.5)]

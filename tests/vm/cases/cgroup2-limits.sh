#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# memory.max and pids.max bite, and their counters say so.
set -eu
group=/sys/fs/cgroup/limits-test
mkdir "$group"
echo 32M >"$group/memory.max"
echo 0 >"$group/memory.swap.max"
echo 8 >"$group/pids.max"
echo '25000 100000' >"$group/cpu.max"
echo 25000 >"$group/cpu.max.burst"
inside() { (echo 0 >"$group/cgroup.procs" && exec "$@"); }

if inside python3 -c 'x = bytearray(64 << 20)'; then exit 1; fi
grep -E '^oom_kill [1-9]' "$group/memory.events"
inside bash -c 'for i in {1..12}; do sleep 2 & done; wait' 2>/dev/null || true
grep -E '^max [1-9]' "$group/pids.events"
inside timeout 2 bash -c 'while :; do :; done' || true
grep -E '^nr_throttled [1-9]' "$group/cpu.stat"
rmdir "$group"

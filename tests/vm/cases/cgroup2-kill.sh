#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# cgroup.kill ends everything in a cgroup, also what left its session and its parent.
set -eu
group=/sys/fs/cgroup/kill-test
mkdir -p "$group/inner"
[[ -e $group/cgroup.kill ]]
(
  echo 0 >"$group/inner/cgroup.procs"
  setsid sleep 1000 & disown
)
grep -q 'populated 1' "$group/cgroup.events"
echo 1 >"$group/cgroup.kill"
for _ in {1..50}; do
  grep -q 'populated 0' "$group/cgroup.events" && break
  sleep 0.1
done
grep 'populated 0' "$group/cgroup.events"
rmdir "$group/inner" "$group"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# cgroup v2 alone is mounted, with the controllers that Threadbox needs, down to the case's cgroup.
set -eu
grep ' cgroup2 ' /proc/mounts
if grep ' cgroup ' /proc/mounts; then exit 1; fi
[[ $(stat -fc %T /sys/fs/cgroup) == cgroup2fs ]]
[[ $(</proc/self/cgroup) == 0::/case ]]
for controller in cpu memory pids; do
  grep -qw "$controller" /sys/fs/cgroup/case/cgroup.controllers
  [[ $(awk -v c="$controller" '$1 == c { print $2 }' /proc/cgroups) == 0 ]]  # in no v1 hierarchy
done
cat /sys/fs/cgroup/cgroup.controllers

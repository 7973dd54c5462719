#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# All namespaces can be made, by root and by an ordinary user.
set -eu
all=(--user --map-root-user --mount --pid --fork --mount-proc --net --ipc --uts --cgroup)
for user in 0 1000; do
  seen=$(setpriv --reuid "$user" --regid "$user" --clear-groups unshare "${all[@]}" \
    bash -c 'echo $$ $(id -u) $(ls /proc/self/ns | wc -l)')
  echo "uid $user: $seen"
  [[ $seen == "1 0 "* ]]
done

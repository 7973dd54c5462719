#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# PID 1 of the VM. Makes the machine look like a Debian host with pure cgroup v2, runs the cases
# that /opt/threadbox/manifest lists (a line each: seconds, name), reports on the second serial port
# and switches the machine off. What it reports is described in run.py.
#
# Each case runs in a cgroup of its own, /sys/fs/cgroup/case, with all controllers on, as a service
# of systemd with Delegate=yes would; what it leaves in a cgroup or mounted is taken away after it.
set -eu
set +e  # PID 1 goes on: a failed step shows in the case that needs it
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
readonly CGROUPS=/sys/fs/cgroup
readonly HERE=/opt/threadbox
readonly MAX_OUTPUT=131072  # bytes of a case's output that are reported: the last ones
readonly MODULES=(loop btrfs overlay fuse veth)

main() {
  prepare_machine
  stty -F /dev/ttyS1 raw -echo
  exec 3>/dev/ttyS1
  echo "@@BOOT" >&3
  if grep -qw tb.shell /proc/cmdline; then
    echo "Cases are in $HERE/cases. Leave the shell to switch the machine off."
    (cd "$HERE" && exec setsid -c bash -l </dev/ttyS0 >/dev/ttyS0 2>&1)
  else
    while read -r limit name; do run_case "$name" "$limit"; done <"$HERE/manifest"
  fi
  echo "@@END" >&3
  power_off
}

prepare_machine() {
  modprobe -a "${MODULES[@]}" &  # btrfs measures its checksums for a second: meanwhile, the rest
  mkdir -p /dev/pts /dev/shm
  mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
  mount -t tmpfs -o mode=1777 shm /dev/shm
  mount -t tmpfs -o mode=755 run /run
  mount -t tmpfs -o mode=1777 tmp /tmp
  mount -t cgroup2 -o nsdelegate,memory_recursiveprot cgroup2 "$CGROUPS"
  mount -t securityfs securityfs /sys/kernel/security
  ln -sfn /proc/self/fd /dev/fd
  ln -sfn /proc/self/mounts /etc/mtab
  mkdir -p /run/lock "$CGROUPS/init"
  echo 0 >"$CGROUPS/init/cgroup.procs"  # only the root may have both members and children
  sed 's/[^ ]*/+&/g' "$CGROUPS/cgroup.controllers" >"$CGROUPS/cgroup.subtree_control"
  hostname threadbox-vm
  ip link set lo up
  wait
}

run_case() {
  local name=$1 limit=$2 start=${EPOCHREALTIME/./} rc
  local work=/var/lib/cases/$name output=/run/output
  mkdir -p "$work" "$CGROUPS/case"
  mapfile -t mounts_before </proc/mounts
  echo "+ case $name" >/dev/ttyS0
  echo "@@START $name" >&3
  (
    echo 0 >"$CGROUPS/case/cgroup.procs"
    cd "$work" && exec setsid -w timeout -k 5 "$limit" "$HERE/cases/$name" 3>&-
  ) </dev/null >"$output" 2>&1
  rc=$?
  clean_up >>"$output" 2>&1
  echo "@@CASE $name $rc $(((${EPOCHREALTIME/./} - start) / 1000))" \
    "$(tail -c "$MAX_OUTPUT" "$output" | base64 -w0)" >&3
  rm -rf --one-file-system "$output" "$work"
}

# Kills what the case left behind, takes its cgroups and mounts away and says what they were.
clean_up() {
  local group left
  for group in "$CGROUPS"/*/; do
    [[ $group == "$CGROUPS/init/" ]] && continue
    if grep -q 'populated 1' "$group/cgroup.events"; then
      left=$(find "$group" -name cgroup.procs -exec cat {} + 2>/dev/null | xargs -r ps -o comm= -p)
      echo "[vm] left running:" $left
      echo 1 >"$group/cgroup.kill"
    fi
    remove_tree "$group"
  done
  remove_mounts
}

remove_mounts() {
  local mounts index target
  mapfile -t mounts </proc/mounts
  for ((index = ${#mounts[@]} - 1; index >= ${#mounts_before[@]}; index--)); do
    read -r _ target _ <<<"${mounts[index]}"
    echo "[vm] left mounted: $target"
    umount -l "$(printf %b "$target")"
  done
}

# The killed need a moment to leave; a cgroup that stays is named, and the next case goes on.
remove_tree() {
  local try
  for try in {1..50}; do
    find "$1" -depth -type d -exec rmdir {} + 2>/dev/null
    [[ -d $1 ]] || return
    sleep 0.1
  done
  echo "[vm] cgroup stays: $1"
}

power_off() {
  exec 3>&-
  sync
  echo o >/proc/sysrq-trigger
  sleep 60
}

main

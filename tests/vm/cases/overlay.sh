#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Overlay mounts: over ext4, and inside a user namespace.
set -eu
mkdir lower upper work merged
echo below >lower/file
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged
echo above >merged/file
[[ $(<lower/file) == below && $(<upper/file) == above ]]
umount merged
unshare --user --map-root-user --mount bash -euc '
  mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work,userxattr merged
  [[ $(<merged/file) == above ]]'

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A btrfs pool in a loop image: a limit on a subvolume gives EDQUOT and leaves the pool alone.
set -eu
fallocate -l 512M pool.img
mkfs.btrfs -q pool.img
mkdir pool
mount -o loop pool.img pool
trap 'umount pool' EXIT
btrfs quota enable pool
btrfs subvolume create pool/thread
btrfs qgroup limit 16M pool/thread
python3 - <<'END'
import errno, os
fd = os.open("pool/thread/big", os.O_CREAT | os.O_WRONLY)
written = 0
try:
    while written < 64 << 20:
        written += os.write(fd, os.urandom(1 << 20))
        os.fsync(fd)
    raise SystemExit("no limit")
except OSError as error:
    assert error.errno == errno.EDQUOT, error
    print(f"EDQUOT after {written >> 20} MiB")
END
dd if=/dev/zero of=pool/beside bs=1M count=32 status=none conv=fsync
btrfs qgroup show -r pool

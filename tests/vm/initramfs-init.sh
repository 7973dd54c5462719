#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# The first program of the VM: finds the disks and hands over to guest-init.sh on the payload disk.
# The disks come in the order in which run.py names them: vda root, vdb scratch, vdc payload.
set -eu
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module"; done </modules/order
mount -t ext4 /dev/vda /new
mount -t ext4 /dev/vdb /new/var/lib
mount -t ext4 -o ro /dev/vdc /new/opt/threadbox
mount -o move /dev /new/dev
mount -o move /proc /new/proc
mount -o move /sys /new/sys
exec switch_root /new /opt/threadbox/guest-init.sh

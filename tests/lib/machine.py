# SPDX-License-Identifier: Apache-2.0
"""A machine of a test's own, without another kernel: a Debian root with a real systemd as process 1
of namespaces of its own. It shares the network of the host."""
import contextlib
import os
import pathlib
import re
import subprocess
import uuid

from server import read_text, wait_until

PACKAGES = "systemd,systemd-sysv,dbus,python3-minimal"
PATH = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
# Uids of sandboxes are claimed for the whole kernel, so that is shared with the host.
# Settings of the kernel are the host's, and its devices: neither is systemd's to change here. (A
# read-only /proc/sys would keep sandboxes from mounting a /proc of their own.)
MASKED = ("systemd-sysctl", "systemd-modules-load", "systemd-binfmt", "systemd-udevd",
          "systemd-networkd", "systemd-timesyncd")
BOOT = r"""
set -eu
root=$1 group=$2
mkdir -p "$group" /run/threadbox
echo $$ > "$group/cgroup.procs"
exec unshare --mount --pid --fork --kill-child --uts --ipc --cgroup --propagation private \
  bash -c '
    set -eu
    root=$1
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
    mount -t tmpfs tmpfs "$root/run"
    mkdir "$root/run/threadbox"
    mount --bind /run/threadbox "$root/run/threadbox"
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    mkdir "$root/dev/pts" "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    for node in "null 3" "zero 5" "full 7" "random 8" "urandom 9"; do
      mknod -m 666 "$root/dev/${node% *}" c 1 "${node#* }"
    done
    mkdir -p "$root/oldroot"
    cd "$root"
    pivot_root . oldroot
    umount -l /oldroot
    exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
      /lib/systemd/systemd --log-target=null
  ' _ "$root"
"""


def make_root(place):
    """A small Debian in this directory, or a sentence why not."""
    done = subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}",
                           "bookworm", place], capture_output=True, text=True, timeout=1500)
    return None if done.returncode == 0 else f"mmdebstrap: {done.stderr[-500:]}"


class Machine:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        mounts = re.findall(r"^\S+ (\S+) cgroup2 ", read_text("/proc/mounts"), re.M)
        self.group = f"{mounts[0]}/tb-machine-{uuid.uuid4().hex[:8]}" if mounts else None
        self.process = None
        self.init = None

    def boot(self):
        for name in MASKED:
            path = self.root / "etc/systemd/system" / f"{name}.service"
            path.unlink(missing_ok=True)
            path.symlink_to("/dev/null")
        self.process = subprocess.Popen(["bash", "-c", BOOT, "bash", self.root, self.group],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.init = wait_until(self.find_init, "systemd has begun", 60)
        wait_until(lambda: self.run("systemctl", "is-system-running").stdout.strip()
                   in ("running", "degraded"), "systemd is up", 120)
        return self

    def find_init(self):
        """Process 1, as the host sees it."""
        assert self.process.poll() is None, "it could not be started"
        for line in read_text(self.group + "/init.scope/cgroup.procs").splitlines():
            if read_text(f"/proc/{line}/comm") == "systemd\n":
                return int(line)
        return None

    def run(self, *command):
        return subprocess.run(
            ["nsenter", f"--target={self.init}", "--mount", "--pid", "--uts", "--ipc", "--cgroup",
             "--root", "--wd", *command], env=PATH, text=True, capture_output=True, timeout=120)

    def must(self, *command):
        done = self.run(*command)
        assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout

    def show(self, unit, name):
        return self.must("systemctl", "show", "--value", f"--property={name}", unit).strip()

    def journal(self):
        return self.run("journalctl", "--no-pager", "--output=short-iso").stdout[-6000:]

    def power_off(self):
        """The end of process 1 is the end of all."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.group and os.path.isdir(self.group):
            wait_until(self.remove_groups, "its cgroups are gone", 30)

    def remove_groups(self):
        for folder, _, _ in os.walk(self.group, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        return not os.path.exists(self.group)

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes what tests/vm/run.py boots: a stock Debian kernel, a tiny initramfs and a root file system.
#
#   tests/vm/build.sh OUT_DIR [KERNEL_PACKAGE]
#
# KERNEL_PACKAGE is a Debian kernel package or meta package; linux-image-cloud-amd64 (Debian 12:
# Linux 6.1) unless told. For a second kernel use a second OUT_DIR.
#
# OUT_DIR/
#   vmlinuz        the kernel, as Debian built and signed it
#   initramfs      busybox, the virtio modules (dependency closure) and initramfs-init.sh
#   root.ext4      Debian with the programs of PACKAGES and all modules of the kernel, so that the
#                  kernel loads what it wants by itself, as on a real host; never written to
#   kernel-release what `uname -r` will say
#   cache/         the kernel package and the unpacked trees, each with the key it was made from
#
# Each stage has a key, the hash of everything that it is made from; a stage whose key did not
# change is skipped, so a second call only compares hashes. A newer kernel or newer packages in the
# archive do not change a key: delete OUT_DIR (or OUT_DIR/cache/kernel.key) to take them in.
set -euo pipefail

readonly SUITE=bookworm
readonly PACKAGES=(
  bash coreutils findutils util-linux mount procps kmod iproute2 file bc gawk jq
  python3 btrfs-progs e2fsprogs curl strace
)
# What the initramfs needs to find the disks; ext4 is built into Debian's cloud kernel.
readonly BOOT_MODULES=(virtio_pci virtio_blk)
# program:package
readonly TOOLS=(
  qemu-system-x86_64:qemu-system-x86 cpio:cpio mmdebstrap:mmdebstrap mke2fs:e2fsprogs
  depmod:kmod busybox:busybox-static flock:util-linux
)

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here

main() {
  [[ $# == 1 || $# == 2 ]] || die "usage: build.sh OUT_DIR [KERNEL_PACKAGE]"
  mkdir -p "$1/cache"
  out=$(cd "$1" && pwd)
  cache=$out/cache
  kernel_package=${2:-linux-image-cloud-amd64}
  readonly out cache kernel_package

  exec 9>"$out/.lock"
  flock 9  # two builds into one directory: the second waits, then finds everything done
  install_tools
  local program
  program=$(sha256sum <"$here/build.sh")
  stage kernel "$out/vmlinuz" "$kernel_package $(declare -f make_kernel)"
  stage root "$cache/root" "$SUITE ${PACKAGES[*]} $(declare -f make_root)"
  stage initramfs "$out/initramfs" \
    "$(<"$cache/kernel.key") $program $(<"$here/initramfs-init.sh")"
  stage image "$out/root.ext4" "$(<"$cache/kernel.key") $(<"$cache/root.key") $program"
}

die() {
  echo "build.sh: $*" >&2
  exit 1
}

# stage NAME RESULT KEY: calls make_NAME unless RESULT is there and was made with the same KEY.
stage() {
  local key
  key=$(sha256sum <<<"$3")
  [[ -e $2 && -f $cache/$1.key && $(<"$cache/$1.key") == "$key" ]] && return
  local start=$SECONDS
  rm -f "$cache/$1.key"
  "make_$1"
  echo "$key" >"$cache/$1.key"
  echo "build.sh: made $1 in $((SECONDS - start)) s" >&2
}

install_tools() {
  local missing=() tool
  for tool in "${TOOLS[@]}"; do
    PATH=$PATH:/usr/sbin:/sbin command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
  done
  # The initramfs has no libraries, so a busybox that wants them is as good as none.
  if command -v busybox >/dev/null && ldd "$(command -v busybox)" &>/dev/null; then
    missing+=(busybox-static)
  fi
  [[ ${#missing[@]} == 0 ]] && return
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# The package that a meta package stands for, or the package itself.
resolve_kernel() {
  local real
  real=$(apt-cache depends "$kernel_package" | awk '/Depends: linux-image-/ { print $2; exit }')
  echo "${real:-$kernel_package}"
}

make_kernel() {
  apt-cache show "$kernel_package" &>/dev/null || apt-get update -qq
  local package deb release
  package=$(resolve_kernel)
  deb=$(find_deb "$package")
  if [[ -z $deb ]]; then
    # As root on purpose: the user _apt may not be able to write to OUT_DIR.
    (cd "$cache" && apt-get -qq -o APT::Sandbox::User=root download "$package")
    deb=$(find_deb "$package")
  fi
  rm -rf "$cache/kernel"
  dpkg-deb -x "$deb" "$cache/kernel"
  release=$(basename "$cache"/kernel/lib/modules/*)
  /sbin/depmod -b "$cache/kernel" "$release"
  cp "$cache/kernel/boot/vmlinuz-$release" "$out/vmlinuz"
  echo "$release" >"$out/kernel-release"
}

find_deb() {
  find "$cache" -maxdepth 1 -name "$1_*.deb" -print -quit
}

make_root() {
  rm -rf "$cache/root"
  mmdebstrap --quiet --variant=essential --include="$(IFS=,; echo "${PACKAGES[*]}")" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' "$SUITE" "$cache/root"
  mkdir -p "$cache/root/opt/threadbox"
  echo threadbox-vm >"$cache/root/etc/hostname"
  echo '127.0.0.1 localhost threadbox-vm' >"$cache/root/etc/hosts"
  compile_python "$cache/root"
}

# Under emulation python would spend a second on compiling its own library at each start.
compile_python() {
  chroot "$1" python3 -m compileall -q /usr/lib/python3 /usr/lib/python3.* >/dev/null || true
}

make_initramfs() {
  local release tree=$cache/initramfs module
  release=$(<"$out/kernel-release")
  rm -rf "$tree"
  mkdir -p "$tree"/{bin,dev,proc,sys,new,modules}
  cp "$(command -v busybox)" "$tree/bin/busybox"
  install -m 755 "$here/initramfs-init.sh" "$tree/init"
  # One line per module in the order to load them, each after those that it needs.
  for module in "${BOOT_MODULES[@]}"; do
    /sbin/modprobe -d "$cache/kernel" -S "$release" --show-depends "$module"
  done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$cache/boot-modules"
  while read -r module; do
    cp "$module" "$tree/modules/"
    basename "$module" >>"$tree/modules/order"
  done <"$cache/boot-modules"
  (cd "$tree" && find . | cpio --quiet -o -H newc -R 0:0) >"$out/initramfs.new"
  mv "$out/initramfs.new" "$out/initramfs"
}

make_image() {
  local tree=$cache/image size
  rm -rf "$tree"
  cp -a --reflink=auto "$cache/root" "$tree"
  mkdir -p "$tree/lib/modules"
  cp -a "$cache"/kernel/lib/modules/* "$tree/lib/modules/"
  size=$(($(du -sm "$tree" | cut -f1) * 5 / 4 + 256))  # with room to write: it is the VM's /
  rm -f "$out/root.ext4.new"
  mke2fs -q -t ext4 -L root -m 0 -O ^has_journal -d "$tree" "$out/root.ext4.new" "${size}M" \
    >/dev/null
  mv "$out/root.ext4.new" "$out/root.ext4"
  rm -rf "$tree"
}

main "$@"

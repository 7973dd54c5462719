#!/usr/bin/env bash
# Installs what is missing to build, run or test Threadbox on Debian 12, Ubuntu 24.04 and newer.
# Sourced by ./run and ./test; `need build run test` names what for. Needs no network when all is
# there.
set -eu

BUILD_PACKAGES="g++ cmake ninja-build ccache libseccomp-dev libsqlite3-dev libyaml-cpp-dev
  libcli11-dev libgtest-dev libssl-dev libc-ares-dev zlib1g-dev
  libhiredis-dev"
# What the default policy names, and what a pool with quotas needs.
RUN_PACKAGES="bash coreutils jq gawk bc file python3 python-is-python3 diffutils findutils grep sed
  tar procps btrfs-progs"
TEST_PACKAGES="python3-dev python3-venv python3-pytest python3-requests
  python3-prometheus-client python3-jsonschema openssl nodejs
  clang-format-19 clang-tidy-19 clang-19 libclang-rt-19-dev mold
  strace util-linux
  iproute2 qemu-system-x86 cpio mmdebstrap kmod squashfs-tools e2fsprogs zstd
  busybox-static shfmt redis-server"

# For containers in tests: an engine that they start themselves, on folders of their own.
DOCKER_PACKAGES="docker.io"
# For tests/deploy: what servers are used with.
DEPLOY_PACKAGES="nginx-light prometheus zsh systemd man-db"

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q '^install ok installed'; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Debian 12's default Boost is too old; its 1.81 has names of its own.
boost_packages() {
  if installed libboost-json1.81-dev; then
    echo libboost1.81-dev libboost-json1.81-dev libboost-container1.81-dev
  elif installed libboost-json-dev || apt-cache show libboost-json-dev >/dev/null 2>&1; then
    echo libboost-dev libboost-json-dev libboost-container-dev
  else
    echo libboost1.81-dev libboost-json1.81-dev libboost-container1.81-dev
  fi
}

# Runs a command that installs packages: what tests need must not begin to serve on this machine.
without_services() {
  local policy=/usr/sbin/policy-rc.d code=0
  if [ -e "$policy" ]; then
    "$@"
    return
  fi
  printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
  as_root chmod 755 "$policy"
  "$@" || code=$?
  as_root rm -f "$policy"
  return "$code"
}

need() {
  local wanted="" missing="" package
  case " $* " in *" build "*) wanted="$BUILD_PACKAGES $(boost_packages)" ;; esac
  case " $* " in *" run "*) wanted="$wanted $RUN_PACKAGES" ;; esac
  case " $* " in *" test "*) wanted="$wanted $TEST_PACKAGES" ;; esac
  case " $* " in *" docker "*) wanted="$wanted $DOCKER_PACKAGES" ;; esac
  case " $* " in *" deploy "*) wanted="$wanted $DEPLOY_PACKAGES" ;; esac
  for package in $wanted; do
    installed "$package" || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  if ! command -v apt-get >/dev/null; then
    echo "threadbox: please install:$missing" >&2
    return 1
  fi
  echo "threadbox: installing$missing" >&2
  as_root apt-get update -qq
  # The names of Boost may have been unknown before the update.
  case " $* " in *" build "*) missing="$missing $(boost_packages)" ;; esac
  # shellcheck disable=SC2086
  without_services as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

# build PRESET [TARGET…]
build() {
  local preset="$1"
  shift
  export CCACHE_SLOPPINESS=pch_defines,time_macros
  if [ ! -f "build/$preset/build.ninja" ]; then
    cmake --preset "$preset" >"build-$preset.log" 2>&1 || {
      cat "build-$preset.log" >&2
      return 1
    }
    rm -f "build-$preset.log"
  fi
  local targets=()
  [ $# -eq 0 ] || targets=(--target "$@")
  cmake --build --preset "$preset" "${targets[@]}"
}

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Proves that each header of src/ compiles alone, and twice in one file.
# Usage: tests/tidy/headers.sh [BUILD_DIR]   what the compiler says is kept in BUILD_DIR/headers/
set -eu

build=${1:-build/debug}
case $build in /*) ;; *) build=$PWD/$build ;; esac
cd "$(dirname "$0")/../.."
logs=$build/headers
mkdir -p "$logs"
rm -f "$logs"/*.log

# The inner shell compiles one header; a log that stays is a failure.
export logs
find src -name '*.h' | sort | xargs -r -P 2 -n 1 sh -eu -c '
  name=${1#src/}
  log=$logs/$(echo "$name" | tr / -).log
  printf "#include \"%s\"\n" "$name" "$name" |
    ${CXX:-g++} -std=c++20 -fsyntax-only -Isrc -D_GNU_SOURCE -DBOOST_ASIO_NO_DEPRECATED \
      -DTB_VERSION=\"0\" -x c++ - 2>"$log" && rm "$log" ||
    echo "$1:1: does not compile alone; include what it uses ($log)"
' sh

if ls "$logs"/*.log >/dev/null 2>&1; then
  head -n 5 "$logs"/*.log
  exit 1
fi
echo "headers: $(find src -name '*.h' | wc -l) compile alone"

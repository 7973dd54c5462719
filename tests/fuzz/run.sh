#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds every fuzz target and runs each for a while on top of its committed corpus.
# Usage: tests/fuzz/run.sh [SECONDS]   Exit 1 when one found something; the input and the log are
# then in build/fuzz/found.
set -eu

seconds=${1:-60}
case $seconds in
  "" | *[!0-9]*) echo "usage: $0 [SECONDS]" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/../.."

targets=""
for source in tests/fuzz/*_fuzz.cpp; do
  targets="$targets $(basename "$source" .cpp)"
done
mkdir -p build/fuzz
log=build/fuzz/build.log
# $targets is many words on purpose.
# shellcheck disable=SC2086
if ! { cmake --preset fuzz && cmake --build --preset fuzz --target $targets; } >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  exit 1
fi

found=build/fuzz/found
mkdir -p "$found"
failed=""
for target in $targets; do
  name=${target%_fuzz}
  corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus" "tests/fuzz/corpus/$name"
  set -- -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$found/$target-"
  if [ -f "tests/fuzz/$name.dict" ]; then set -- "$@" -dict="tests/fuzz/$name.dict"; fi
  if "build/fuzz/tests/fuzz/$target" "$@" "$corpus" "tests/fuzz/corpus/$name" \
    >"$found/$target.log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$found/$target.log")
    echo "fuzz: $target: nothing in $runs runs"
  else
    echo "fuzz: $target found something: see $found/$target.log" >&2
    failed="$failed $target"
  fi
done
[ -z "$failed" ] || exit 1

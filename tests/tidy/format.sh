#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks that clang-format 19 would change nothing in our C++; with --fix, lets it.
# Usage: tests/tidy/format.sh [--fix]   CLANG_FORMAT names another program of the same version
set -eu

case ${1:-} in
  "") how="--dry-run --Werror" ;;
  --fix) how=-i ;;
  *) echo "usage: $0 [--fix]" >&2; exit 2 ;;
esac
format=${CLANG_FORMAT:-clang-format-19}
if ! command -v "$format" >/dev/null; then
  echo "$0: no $format here; install the package clang-format-19 (versions format differently)" >&2
  exit 2
fi

cd "$(dirname "$0")/../.."
# $how is two words on purpose.
# shellcheck disable=SC2086
for folder in src tests bench sdk; do
  if [ -d "$folder" ]; then find "$folder" -name '*.h' -o -name '*.cpp'; fi
done | sort | xargs -r -n 50 "$format" $how || {
  echo "format: run tests/tidy/format.sh --fix" >&2
  exit 1
}

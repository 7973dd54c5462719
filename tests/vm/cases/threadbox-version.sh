#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The binary runs on this kernel at all.
set -eu
binary=/opt/threadbox/threadbox
[[ -x $binary ]] || { echo "no binary was given"; exit 77; }
exec "$binary" version

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# 64 readers, and a shard to which everything happens that can happen to a file, in any order: each reply is bytes of the
# checkpoint as it was mounted, ESTALE or EIO.  ZEROFS_RACE_SECONDS=120 takes longer; a failure names the seed of its round.
# shellcheck source=tests/mount/lib.sh
. "${top_srcdir:?run by make check}/tests/mount/lib.sh"

check 'changes in combination under 64 readers' look rounds "$ZEROFS" "$tmp/ckpt" "$mnt" "${ZEROFS_RACE_SECONDS:-3}" \
    "${ZEROFS_RACE_SEED:-}"
check 'nothing is mounted' not_mounted "$mnt"
finish

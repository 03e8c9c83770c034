#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A shard that lost bytes, mounted with -o degraded: read, mapped, listed.
# shellcheck source=tests/mount/lib.sh
. "${top_srcdir:?run by make check}/tests/mount/lib.sh"

whole=$ZF_DATA/hf/transformers5.23.0_llama_tied_bf16_single
cut=$tmp/cut
mkdir "$cut" "$mnt.whole"
cp "$whole"/*.json "$cut"
head -c 10024 "$whole/model.safetensors" >"$cut/model.safetensors"

check 'whole' "$ZEROFS" mount "$whole" "$mnt.whole"
check 'degraded' "$ZEROFS" mount "$cut" "$mnt" -o degraded
check 'mapped private: a page with a lost byte is SIGBUS, the others are right, sizes stay' look maps "$mnt" "$mnt.whole"
check 'read: right up to the first lost byte, and from the last on' look reads "$mnt" "$mnt.whole" "$cut/model.safetensors"
check 'sent from file to file: never zeros for lost bytes' look sends "$mnt" "$mnt.whole"
check 'unmounted' unmount "$mnt"
check 'unmounted, too' unmount "$mnt.whole"
finish

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
one_line() {
    "$ZEROFS" mount "$cut" "$mnt" -o degraded 2>"$tmp/told" || return 1
    cat "$tmp/told"
    echo "zerofs: 4 of 20 tensors have lost bytes: $cut/model.safetensors ends at byte 10024 (zerofs info -v lists them)" |
        cmp - "$tmp/told"
}
check 'degraded: one line says how much is lost, and why' one_line
check 'mapped private: a page with a lost byte is SIGBUS, the others are right, sizes stay' look maps "$mnt" "$mnt.whole"
check 'mapped private: every healthy tensor of a bulk file is there' look healthy_maps "$mnt" "$mnt.whole"
check 'read: right up to the first lost byte, and from the last on' look reads "$mnt" "$mnt.whole" "$cut/model.safetensors"
check 'sent from file to file: never zeros for lost bytes' look sends "$mnt" "$mnt.whole"
check 'the log and the index name tensor, bytes and file' look names_in_mount "$mnt" "$cut/model.safetensors"
check 'so does zerofs info' look names_in_info "$ZEROFS" "$cut"
mark() {
    "$ZEROFS" ls -R -l "$cut" -o degraded >"$tmp/list" || return 1
    grep -c '(damaged)' "$tmp/list" | grep -qx 4 || { cat "$tmp/list"; return 1; }
    "$ZEROFS" ls -R -l "$cut" model.safetensors -o degraded | grep '(damaged)'
}
check 'ls -l marks what is damaged' mark
check 'unmounted' unmount "$mnt"

check 'lost=omit' "$ZEROFS" mount "$cut" "$mnt" -o degraded,lost=omit
check 'lost=omit: the healthy tensors in files that can be mapped, LOST.json has the others' look omits "$mnt" "$mnt.whole"
check 'unmounted again' unmount "$mnt"
check 'unmounted, too' unmount "$mnt.whole"

look make_mixed "$tmp/mixed" "$tmp/mixed.cut"
mkdir "$mnt.mixed"
check 'another one, of many types' "$ZEROFS" mount "$tmp/mixed" "$mnt.mixed"
check 'lost=nan' "$ZEROFS" mount "$tmp/mixed.cut" "$mnt" -o degraded,lost=nan
check 'lost=nan: an element with a lost byte is NaN, in every presentation; integers are errors' \
    look nans "$mnt" "$mnt.mixed" "$tmp/mixed.cut/model.safetensors"
check 'unmounted at last' unmount "$mnt"
check 'lost=eio is the default' look names_in_info "$ZEROFS" "$cut" -o lost=eio
check 'another value' says 2 'lost .*eio.*omit.*nan.*"zero"' "$ZEROFS" ls -R "$cut" -o degraded,lost=zero
check 'without degraded nothing is forgiven' says 4 'found a file of 10024 bytes' "$ZEROFS" ls -R "$cut" -o lost=nan

look make_headless "$tmp/headless"
check 'the first tensor is lost' "$ZEROFS" mount "$tmp/headless" "$mnt" -o degraded
check 'and takes no other with it' look header_apart "$mnt"
check 'unmounted, for the last time' unmount "$mnt"

# A file that is gone is named, whatever its format; two are counted.
missing() {
    dir=$1
    line=$2
    "$ZEROFS" mount "$dir" "$mnt" -o degraded 2>"$tmp/told" && unmount "$mnt" && cat "$tmp/told" &&
        grep -qxE "zerofs: [0-9]+ of [0-9]+ tensors have lost bytes: $line \(zerofs info -v lists them\)" "$tmp/told"
}
cp -r "$ZF_DATA/deepspeed/zero3_w2" "$tmp/zero3"
chmod -R u+w "$tmp/zero3"
rank=$(cd "$tmp/zero3" && find . -name '*zero_pp_rank_1_*optim_states.pt' | sed 's/..//')
rm "$tmp/zero3/$rank"
check 'a rank that is missing' missing "$tmp/zero3" "$tmp/zero3/$rank is missing"
cp -r "$ZF_DATA/hf/transformers5.23.0_gpt2_sharded" "$tmp/gpt2"
chmod -R u+w "$tmp/gpt2"
rm "$tmp/gpt2"/model-00002-of-*.safetensors
cp -r "$ZF_DATA/dcp/torch2.13/fsdp2_w2_adamw" "$tmp/dcp"
chmod -R u+w "$tmp/dcp"
item=$(cd "$tmp/dcp" && find . -name '__1_0.distcp' | sed 's/..//')
rm "$tmp/dcp/$item"
check 'a .distcp file that is missing' missing "$tmp/dcp" "$tmp/dcp/$item is missing"
check 'an hf shard that is missing' missing "$tmp/gpt2" 'model-00002-of-0[0-9]*.safetensors is missing'
rm "$tmp/gpt2"/model-00003-of-*.safetensors
check 'and another' missing "$tmp/gpt2" \
    'model-0000[23]-of-0[0-9]*.safetensors is missing, and 1 more file'
finish

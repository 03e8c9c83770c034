#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a mount shows, judged by the digests the frameworks recorded and by parsers of other people.
# shellcheck source=tests/mount/lib.sh
. "${top_srcdir:?run by make check}/tests/mount/lib.sh"

# with CHECKPOINT OPTIONS -- FUNCTION: mounts, looks, unmounts.
with() {
    ckpt=$ZF_DATA/$1
    shift
    options=
    while [ "$1" != -- ]; do
        options="$options $1"
        shift
    done
    shift
    # shellcheck disable=SC2086 # a list of words
    "$ZEROFS" mount "$ckpt" "$mnt" $options || return 1
    look "$@"
    seen=$?
    unmount "$mnt" || return 1
    return $seen
}

# prints REGEX COMMAND...: it succeeds, and one of its lines is such.
prints() {
    regex=$1
    shift
    "$@" >"$tmp/out" && cat "$tmp/out" && grep -qE -e "$regex" "$tmp/out"
}

for c in deepspeed/zero1_w2 deepspeed/zero2_w2 deepspeed/zero3_w2 deepspeed/zero3_w12 deepspeed/zero2_w2_elastic \
    dcp/torch2.13/fsdp2_w2_adamw dcp/torch2.13/fsdp2_tp_2x2 dcp/torch2.13/weird_keys_1p \
    hf/transformers5.23.0_llama_tied_bf16_single hf/bin_sharded_llama; do
    check "digests of $c" with $c -- digests "$mnt" "$ZF_DATA/$c/expected.json"
done

c=$ZF_DATA/deepspeed/zero3_w2
check 'a mount' "$ZEROFS" mount "$c" "$mnt"
check 'source and type in /proc/mounts' look proc_mounts "$mnt" "$c"
real=$(realpath "$c")
check 'ls of the mount point says what is mounted' says 3 "^zerofs: $mnt is a zerofs mount of $real/global_step3; " "$ZEROFS" ls "$mnt"
check 'info of the mount point is that of the checkpoint' prints "^mount +$mnt shows $real/global_step3; up 0:0[0-9]:[0-9][0-9], .* read, 0 errors" \
    "$ZEROFS" info "$mnt"
info_of_mount() {
    "$ZEROFS" info --json "$mnt" >"$tmp/of.mount" && "$ZEROFS" info --json "$real" >"$tmp/of.itself" && look same_info "$tmp/of.mount" "$tmp/of.itself"
}
check 'and as JSON' info_of_mount
check 'info of a directory in it' says 3 "in a zerofs mount of $real/global_step3" "$ZEROFS" info "$mnt/hf"
# Beside it are a name that begins like the mount point's, and one as long as it.
for beside in "${mnt}2" "${mnt%?}~"; do
    mkdir "$beside"
    cp -R "$c" "$beside/run"
    check "info in $(basename "$beside"), which is no part of it" "$ZEROFS" info "$beside/run"
    rm -r "$beside"
done
if "$ZEROFS" info --help | grep -q xdev; then
    check 'info above a mount point does not go into it' says 3 "^zerofs: $tmp: there is no checkpoint here.*; $mnt is a mount of zerofs and shows $real" "$ZEROFS" info "$tmp"
fi
check 'mounting the mount is refused' says 3 "is a zerofs mount of $real/global_step3" "$ZEROFS" mount "$mnt" "$tmp"
check 'mode, owner, times, blocks and block size' look attributes "$mnt" "$c"
check 'tied tensors are hard links' look ties "$mnt" embed.weight.f32 head.weight.f32
check 'df shows the sum of the files, and no room' look space "$mnt"
check 'everything listed can be looked up, opened and read' look walk "$mnt"
check 'extended attributes' look attributes_extended "$mnt" "$c"
check 'npy/' look npy "$mnt"
check 'model.safetensors' look safetensors "$mnt" ''
check 'pytorch_model.bin' look torch_zip "$mnt" ''
check 'a set below has the same presentations' look safetensors "$mnt" optim/exp_avg
check 'and its pytorch_model.bin' look torch_zip "$mnt" optim/exp_avg
check 'as/f32' look casts "$mnt"
check '/.zerofs is found and not listed' look hidden "$mnt"
check 'index.json tells every tensor' look index "$mnt"
check 'stats.json counts' look stats "$mnt"
check 'the log is empty' test ! -s "$mnt/.zerofs/log"
look inodes "$mnt" >"$tmp/inodes"
check 'unmounted' unmount "$mnt"
check 'no attributes with xattrs=off' with deepspeed/zero3_w2 -o xattrs=off -- attributes_told "$mnt" embed.weight.f32 '' never
check 'xattrs takes one of its words' says 2 'xattrs .*auto.*on.*off.*"no"' "$ZEROFS" mount "$c" "$mnt" -o xattrs=no

# Large files go past the page cache where that is granted, and are mapped either way.
mkdir "$tmp/large"
look large "$tmp/large/model.safetensors"
for io in auto=direct cached=cached direct=direct; do
    check 'a large file' "$ZEROFS" mount "$tmp/large" "$mnt" -o "io=${io%=*}"
    check "with io=${io%=*}" look modes "$mnt" "${io#*=}" w.u8
    check "a safetensors file with io=${io%=*}" look mapped "$mnt" "${io%=*}"
    check 'info says how it is read' prints '^mount .*; large files (past|through) the page cache' "$ZEROFS" info "$mnt"
    check 'taken off' unmount "$mnt"
done

# Many files: their attributes are there, but not listed unless one wants that.
python3 "$top_srcdir/tests/support/mkdcp.py" "$tmp/many" --tensors 4200 --ranks 1 --rows 1 --cols 4 --hollow
for how in auto=never on=listed; do
    check 'a tree of many files' "$ZEROFS" mount "$tmp/many" "$mnt" -o "xattrs=${how%=*}"
    check "with xattrs=${how%=*}" look attributes_told "$mnt" layers.7.weight.f32 '[1,4]' "${how#*=}"
    check 'taken off' unmount "$mnt"
done

"$ZEROFS" mount "$c" "$mnt"
look inodes "$mnt" >"$tmp/inodes.again"
check 'inodes are the same after a remount' cmp "$tmp/inodes" "$tmp/inodes.again"
unmount "$mnt"

# offers_mount WORD: what bash offers for "zerofs umount WORD" is the one mount point that begins so.
offers_mount() {
    bash --norc -c '
        compopt() { :; }
        . "$1/completions/zerofs.bash"
        COMP_WORDS=("$2" umount "$3") COMP_CWORD=2 COMP_LINE="$2 umount $3" COMP_POINT=1000
        _zerofs
        printf "%s\n" "${COMPREPLY[@]}"' bash "$top_srcdir" "$ZEROFS" "$1" >"$tmp/offers"
    cat "$tmp/offers"
    [ "$(cat "$tmp/offers")" = "$2" ]
}
mkdir "$tmp/a blank"
"$ZEROFS" mount "$c" "$mnt"
"$ZEROFS" mount "$c" "$tmp/a blank"
if command -v bash >/dev/null 2>&1; then
    check 'bash completes mount points' offers_mount "${mnt%nt}" "$mnt"
    check 'and those with blanks' offers_mount "$tmp/a" "$tmp/a blank"
    check 'and nothing that is no mount of ours' offers_mount /proc ''
fi
unmount "$tmp/a blank"
unmount "$mnt"

names='h.0.w h.1.w h.2.w h.9.w h.10.w h.11.w h.100.w'
# shellcheck disable=SC2086 # a list of words
look make_safetensors "$tmp/layers.safetensors" $names
"$ZEROFS" mount "$tmp/layers.safetensors" "$mnt"
# shellcheck disable=SC2086 # a list of words
check 'natural order' look natural_order "$mnt" $names
unmount "$mnt"

c=$ZF_DATA/hf/transformers5.23.0_llama_tied_bf16_single
check 'side files are passed through' with hf/transformers5.23.0_llama_tied_bf16_single -- side_files "$mnt" "$c"
check 'hf/ is cut at shard_size' with hf/transformers5.23.0_llama_tied_bf16_single -o shard_size=3k -- \
    hf_shards "$mnt" "$c" 3072
check 'only, except, rename, strip_prefix' with hf/transformers5.23.0_llama_tied_bf16_single \
    -o 'only=*layers.0*,except=*mlp*,rename=self_(attn)=\1,strip_prefix=model.' -- names "$mnt" \
    layers.0.attn.k_proj.weight.bf16 layers.0.attn.o_proj.weight.bf16 layers.0.attn.q_proj.weight.bf16 \
    layers.0.attn.v_proj.weight.bf16 layers.0.input_layernorm.weight.bf16 layers.0.post_attention_layernorm.weight.bf16
check 'uid, gid and umask' with deepspeed/zero3_w2 -o uid=1234,gid=2345,umask=027 -- owner "$mnt" 1234 2345 0440 0550
group=$(stat -c %G /etc/shadow 2>/dev/null || echo root)
check 'uid and gid by name' with deepspeed/zero3_w2 -o uid=nobody,gid="$group" -- owner "$mnt" \
    "$(id -u nobody)" "$(stat -c %g /etc/shadow)" 0444 0555
finish

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Which names directories list (-o show=), what du makes of it, and that everything is found by name all the same.
# shellcheck source=tests/mount/lib.sh
. "${top_srcdir:?run by make check}/tests/mount/lib.sh"

ckpt=$ZF_DATA/deepspeed/zero2_w2
zero=$ckpt

# shown OPTIONS FUNCTION...: mounts $ckpt, looks, unmounts.
shown() {
    options=$1
    shift
    # shellcheck disable=SC2086 # a list of words
    "$ZEROFS" mount "$ckpt" "$mnt" $options || return 1
    look "$@"
    seen=$?
    unmount "$mnt" || return 1
    return $seen
}

check 'by default the root lists each presentation once, other sets their raw files' shown '' auto "$mnt"
check 'show=auto is the default' shown '-o show=auto' auto "$mnt"
check 'show=all lists every presentation of every set' shown '-o show=all' everything "$mnt"
check 'show=raw lists the raw files of the root' shown '-o show=raw' lists "$mnt" raw
check 'show=raw,optim: the comma separates words' shown '-o show=raw,optim,degraded' lists "$mnt" raw optim
check 'auto behind a word is that of fstab' shown '-o show=raw,auto,nofail' lists "$mnt" raw
check 'show=npy:stored, with colons' shown '-o show=npy:stored' lists "$mnt" npy stored
check 'as a long option' shown '--show=hf,state' lists "$mnt" hf state
check 'words alone ask for raw files' shown '-o show=as' lists "$mnt" raw as
check 'given twice, both count' shown '-o show=bin -o show=safetensors,extra' lists "$mnt" bin safetensors extra
for o in '' '-o show=raw' '-o show=all'; do
    check "everything is found by name, $o" shown "$o" by_name "$mnt"
    check "link counts agree with what is listed, $o" shown "$o" links "$mnt"
done
ckpt=$ZF_DATA/deepspeed/ds0_19_8_peft_lora_zero3_w2
check 'show=trained lists an adapter, which is what was trained' shown '-o show=raw:trained' trained "$mnt" adapter trained
check 'show=stored does not' shown '-o show=raw:stored' trained "$mnt"
for kept in '' ', and from the model that was kept'; do
    ckpt=$ZF_DATA/dcp/torch2.14/plain_1p
    check "items that state/ says wholly are not listed$kept" shown '' told "$mnt" some
    ckpt=$ZF_DATA/dcp/torch2.14/fsdp2_adamw
    check "nor is extra/, where those are all of it$kept" shown '' told "$mnt" none
done
check 'show=extra lists it' shown '-o show=raw:extra' has "$mnt" . extra
ckpt=$zero
check 'an unknown word is refused' refused 2 'show takes raw, npy.*found "rwa"' -o show=rwa "$ckpt" "$mnt"
check 'all stands alone' refused 2 'cannot be combined' -o show=all,raw "$ckpt" "$mnt"
check 'an empty list is refused' refused 2 'found ""' -o show= "$ckpt" "$mnt"

# du of weights alone, of a size at which headers do not count: nothing of a sparse file is ever read.
for dtype in BF16 F32; do
    weights=$tmp/$dtype
    mkdir "$weights"
    check "sparse weights, $dtype" look weights "$weights/model.safetensors" $dtype
    ckpt=$weights
    for show in auto:6 raw:1; do
        check "$dtype: du with show=${show%:*} is at most ${show#*:} times the weights" \
            shown "-o show=${show%:*},shard_size=500M" du "$mnt" "$weights/model.safetensors" "${show#*:}"
    done
done
ckpt=$zero
check 'one shard and model.safetensors are one file' shown '' one_file "$mnt" model.safetensors hf/model.safetensors

# Without a mount.
# says_lines REGEX REGEX COMMAND...: a line matches the first one, and none the second.
says_lines() {
    wanted=$1
    not_wanted=$2
    shift 2
    "$@" >"$tmp/out" || return 1
    cat "$tmp/out"
    grep -q -e "$wanted" "$tmp/out" && ! grep -q -e "$not_wanted" "$tmp/out"
}
check 'zerofs ls lists what it is asked to show' says_lines 'norm.weight.f32$' '^npy/\|^optim/\|^state/' \
    "$ZEROFS" ls -R -o show=raw "$ckpt"
check 'a pattern still finds what is not listed' says_lines '^npy/norm.weight.npy$' '\.f32$' \
    "$ZEROFS" ls -R -o show=raw "$ckpt" 'npy/norm*'
exported() {
    "$ZEROFS" export -o show=raw "$ckpt" optim/exp_avg/npy "$tmp/exported" 2>&1 && shown '' same "$mnt/optim/exp_avg/npy" "$tmp/exported/npy"
}
check 'export of a directory that is not listed gives what is in it' exported
copied() {
    shown '-o show=raw' copy "$mnt" "$tmp/copy" && [ -f "$tmp/copy/norm.weight.f32" ] && [ ! -e "$tmp/copy/npy" ]
}
check 'cp -r of show=raw' copied
finish

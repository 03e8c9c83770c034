#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Shards that change under a mount, that were lost before it, and saves that come later.
# shellcheck source=tests/mount/lib.sh
. "${top_srcdir:?run by make check}/tests/mount/lib.sh"

ckpt=$tmp/ckpt
first=$ckpt/model-00001-of-00002.safetensors

# fresh: a new checkpoint of two shards with three tensors of 1 MiB each, mounted.
fresh() {
    [ -z "$(mounted_below_tmp)" ] || unmount "$mnt"
    rm -rf "$ckpt" "$ckpt.backup"
    look make_checkpoint "$ckpt" && "$ZEROFS" mount "$ckpt" "$mnt" "$@" && cp "$mnt/b.0.f32" "$tmp/b.0"
}

# One line in the log that matches, however often it was read.
logged_once() {
    cat "$mnt/.zerofs/log"
    [ "$(wc -l <"$mnt/.zerofs/log")" = 1 ] && grep -qE "$1" "$mnt/.zerofs/log"
}

# ---- while it is mounted ----
fresh
check 'a shard is truncated: EIO behind the cut, never zeros' look truncated "$mnt" "$first"
check 'files of the other shard are served' cmp "$mnt/b.0.f32" "$tmp/b.0"
check 'one line in the log: file, byte, reason' logged_once "$first: byte [0-9]+: "
check 'stats count the errors' look errors_counted "$mnt" 00001

fresh
check 'a shard is rewritten in place: ESTALE' look rewritten "$mnt" "$first"
check 'files of the other shard are served' cmp "$mnt/b.0.f32" "$tmp/b.0"
check 'one line in the log, and what to type' logged_once "$first: byte [0-9]+: .*(changed|written).*mount again to go on( [(][0-9]+ times[)])?$"

fresh
check 'rewritten, with its old time put back: ESTALE' look rewritten_quietly "$mnt" "$first"
fresh
check 'only its time changed: ESTALE' look touched "$mnt" "$first"
fresh
check 'deleted while open: right bytes or ESTALE' look deleted "$mnt" "$first"
fresh
check 'rewritten, then deleted: never good again' look stays_stale "$mnt" "$first"
fresh
check 'rewritten and deleted before anybody looks' look rewritten_unseen "$mnt" "$first"
fresh
check 'replaced by another file: old bytes or ESTALE' look replaced "$mnt" "$first"
check 'files of the other shard are served' cmp "$mnt/b.0.f32" "$tmp/b.0"
fresh
check 'chmod, chown, ln, cp -al: it goes on' look harmless "$mnt" "$first"
said_to_go_on() {
    grep -E 'model-0000.-of-00002.safetensors: .*changed=strict' "$mnt/.zerofs/log"
}
check 'the log says so' until_true 30 said_to_go_on
check 'and a write whose time was put back is found afterwards' look rewritten_quietly "$mnt" "$first"
fresh -o changed=strict
check 'changed=strict: ESTALE' look not_even_chmod "$mnt" "$first"
fresh
check 'a deleted shard that nobody reads gives its space back' look let_go "$mnt" "$first" "$(daemon_of "$mnt")"
fresh
check 'presentations too: npy, as, model.safetensors' look truncated_presentations "$mnt" "$first"
fresh
check 'a mapping gets SIGBUS, no zeros' look mapped "$mnt" "$first"
fresh
check 'rewritten again and again under readers: old bytes or ESTALE' look race "$mnt" "$first"
check 'unmounted' unmount "$mnt"

# ---- lost before ----
mkdir "$mnt.whole"
degraded() {
    "$ZEROFS" mount "$2" "$mnt" -o degraded || return 1
    look "$@" "$mnt"
    seen=$?
    unmount "$mnt" || return 1
    return $seen
}
cp -r "$ZF_DATA/deepspeed/zero3_w2" "$tmp/zero3"
rm "$tmp/zero3/global_step3/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"
check 'strictly, a missing rank is refused' refused 4 'rank.?1' "$tmp/zero3" "$mnt"
check 'a missing ZeRO-3 rank: EIO on its bytes alone' degraded lost_exactly "$tmp/zero3" "$ZF_DATA/deepspeed/zero3_w2" "$ZEROFS"
cp -r "$ZF_DATA/deepspeed/zero2_w2" "$tmp/zero2"
rm "$tmp"/zero2/*/*zero_pp_rank_1_mp_rank_00_optim_states.pt
check 'a missing ZeRO-2 rank' degraded lost_exactly "$tmp/zero2" "$ZF_DATA/deepspeed/zero2_w2" "$ZEROFS"
cp -r "$ZF_DATA/dcp/torch2.13/fsdp2_w2_adamw" "$tmp/dcp"
rm "$tmp/dcp/__1_0.distcp"
check 'strictly, a missing .distcp is refused' refused 4 '__1_0.distcp' "$tmp/dcp" "$mnt"
check 'a missing .distcp' degraded lost_exactly "$tmp/dcp" "$ZF_DATA/dcp/torch2.13/fsdp2_w2_adamw" "$ZEROFS"

# ---- -o all_tags ----
run=$tmp/run
mkdir "$run"
for step in 3 20; do
    cp -r "$ZF_DATA/deepspeed/zero3_w2/global_step3" "$run/global_step$step"
done
echo global_step20 >"$run/latest"
check 'all_tags' "$ZEROFS" mount "$run" "$mnt" -o all_tags
file=l1.weight.f32
check 'one directory per save, in natural order, and latest' look lists "$mnt" global_step3 global_step20 latest
check 'latest is a link' test "$(readlink "$mnt/latest")" = global_step20
shut() {
    ls "$mnt/global_step3" 2>"$tmp/err" || grep -q 'Input/output error' "$tmp/err"
}
check 'what was written just now is shut, or whole' shut
check 'both are served' until_true 30 cmp "$mnt/latest/$file" "$mnt/global_step3/$file"
check 'presentations in each' cmp "$mnt/global_step3/model.safetensors" "$mnt/latest/as/f32/../../model.safetensors"
check 'control files in each, and for the run' look run_control "$mnt"

cp -r "$run/global_step3" "$run/global_step100"
later() {
    find "$mnt" -maxdepth 1 | grep -q '/global_step100$'
}
check 'a save that comes later appears' until_true 30 later
check 'and is served' until_true 30 cmp "$mnt/global_step100/$file" "$mnt/global_step3/$file"
echo global_step100 >"$run/latest.new" && mv "$run/latest.new" "$run/latest"
moved() {
    [ "$(readlink "$mnt/latest")" = global_step100 ]
}
check 'latest moves' until_true 30 moved
check 'the link leads there' test "$mnt/latest" -ef "$mnt/global_step100"

cp -r "$run/global_step3" "$run/global_step200"
rm "$run"/global_step200/*rank_1*optim*
broken() {
    [ -d "$mnt/global_step200" ] && look shut "$mnt/global_step200" 'rank.?1'
}
check 'a broken save: EIO, and its own log says why' until_true 30 broken
check 'who copies it fails' sh -c "! cp -r '$mnt/global_step200' '$tmp/copied' 2>/dev/null"
check 'and one line in the log' logged_once 'global_step200.*rank.?1'
whole() {
    cmp "$mnt/global_step200/$file" "$mnt/global_step3/$file" && ls "$mnt/global_step200/optim" &&
        look index "$mnt/global_step200"
}
check 'mended, it is served without a new mount' sh -c "cp '$run'/global_step3/*rank_1*optim* '$run/global_step200'"
check 'within a moment' until_true 30 whole
mkdir "$run/global_step300"
for part in "$run"/global_step3/*; do
    cp "$part" "$run/global_step300"
    ls "$mnt" "$mnt/global_step300" >/dev/null 2>&1
done
whole_too() {
    cmp "$mnt/global_step300/$file" "$mnt/global_step3/$file"
}
check 'a save that is looked into while it is written' until_true 30 whole_too
# Written again under its name: another save.  Bytes of the old one are an error, never those of the new one.
exec 3<"$mnt/global_step300/$file"
rm -r "$run/global_step300"
cp -r "$ZF_DATA/deepspeed/zero2_w2/global_step3" "$run/global_step300"
old_file_is_stale() {
    ! cat <&3 >"$tmp/old" || cmp "$tmp/old" "$mnt/global_step3/$file"
}
check 'what was opened of the old save' old_file_is_stale
exec 3<&-
again() {
    "$ZEROFS" cat "$run/global_step300" model.safetensors >"$tmp/want" && cmp "$mnt/global_step300/model.safetensors" "$tmp/want"
}
check 'a save that was written again under its name is shown' until_true 30 again
rm -r "$run/global_step300"
gone() {
    ! stat "$mnt/global_step300" 2>"$tmp/err" && grep -q 'No such file' "$tmp/err" && ! ls "$mnt" | grep -q step300
}
check 'one that is gone is not there' until_true 30 gone
check 'the others are served' cmp "$mnt/global_step20/$file" "$mnt/global_step3/$file"
check 'unmounted' unmount "$mnt"
check 'a directory without saves' refused 3 . "$tmp/zero3/global_step3" "$mnt" -o all_tags
finish

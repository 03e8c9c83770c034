#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# zerofs export: what is copied, what is kept, and what an interruption or a hostile destination does.
# shellcheck disable=SC2016 # the shells started here expand their own arguments
: "${ZEROFS:?run by make check}" "${ZF_DATA:?}" "${top_srcdir:?}"
set -u
umask 022
LC_ALL=C
export LC_ALL
n=0
tmp=$(mktemp -d "${TMPDIR:-/tmp}/zerofs-test.XXXXXX") || exit 99
small=$tmp/small
cleanup() {
    trap '' HUP INT TERM
    [ -z "${pid:-}" ] || kill -9 "$pid" 2>/dev/null
    [ ! -e "$tmp/mounted" ] || umount "$small"
    ! mountpoint -q "$tmp/shared" || umount "$tmp/shared"
    rm -rf --one-file-system "$tmp"
}
trap cleanup EXIT
trap 'exit 99' HUP INT TERM
cd "$tmp" || exit 99

check() {
    n=$((n + 1))
    what=$1
    shift
    if "$@" >said 2>&1 </dev/null; then
        echo "ok $n - $what"
    else
        echo "not ok $n - $what"
        sed 's/^/# /' said
    fi
}
skip() {
    n=$((n + 1))
    echo "ok $n - $1 # SKIP $2"
}
# answers CODE TEXT COMMAND...: the exit code, and a sentence on stderr that contains TEXT.
answers() {
    code=$1 text=$2
    shift 2
    "$@" 2>sentence
    got=$?
    cat sentence
    echo "exit code $got"
    [ $got = "$code" ] && grep -qF -- "$text" sentence
}
until_true() {
    tries=600
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.05
    done
}
ended() {
    ! kill -0 "$1" || grep -q '^State:.*Z' "/proc/$1/status"
}
export_() {
    "$ZEROFS" export "$@"
}

mkdcp=$top_srcdir/tests/support/mkdcp.py
zero3=$ZF_DATA/deepspeed/zero3_w2
python3 "$mkdcp" ckpt --tensors 3 --ranks 2 --rows 1800 --cols 700

# ---- what is copied
# sums FILE CATTED: all members of the archive have the CRCs of their bytes, and but for CRCs it is what cat gives.
sums() {
    python3 - "$@" <<'EOF'
import sys, zipfile
def blank(path, check):
    data = bytearray(open(path, 'rb').read())
    with zipfile.ZipFile(path) as z:
        assert not check or z.testzip() is None, z.testzip()
        at = z.start_dir
        for i in z.infolist():
            assert data[at:at + 4] == b'PK\1\2'
            assert not check or data[i.header_offset + 14:i.header_offset + 18] == data[at + 16:at + 20], i.filename
            data[i.header_offset + 14:i.header_offset + 18] = data[at + 16:at + 20] = b'    '
            at += 46 + sum(int.from_bytes(data[at + k:at + k + 2], 'little') for k in (28, 30, 32))
    return data
assert blank(sys.argv[1], True) == blank(sys.argv[2], False)
EOF
}
same_as_cat() {
    rm -rf all
    export_ "$1" / all || return 1
    "$ZEROFS" ls -R "$1" >names
    while IFS= read -r name; do
        "$ZEROFS" cat "$1" "$name" >catted || return 1
        case $name in
        *.bin) sums "all/$name" catted || return 1 ;;
        *) cmp catted "all/$name" || return 1 ;;
        esac
    done <names
    [ "$(find all -type f | wc -l)" = "$(wc -l <names)" ]
}
for c in "$zero3" "$ZF_DATA/dcp/torch2.13/fsdp2_tp_2x2" ckpt; do
    check "a whole tree has the bytes of zerofs cat: ${c##*/}" same_as_cat "$c"
done

one_byte() {
    head='{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    printf '\065\0\0\0\0\0\0\0%s*' "$head" >one.safetensors && [ ${#head} = 53 ] &&
        timeout 60 "$ZEROFS" export one.safetensors / one_byte && [ "$(cat one_byte/w.u8)" = '*' ] && rm -r one_byte
}
check 'a file of one byte' one_byte

where() {
    rm -rf w
    export_ "$@" w/ && (cd w && find . -type f | sort) >found && cat found
}
goes_to() {
    expected=$1
    shift
    where "$@" && [ "$(tr '\n' ' ' <found)" = "$expected " ]
}
check 'a file goes by its own name' goes_to './embed.weight.f32' "$zero3" optim/exp_avg/embed.weight.f32
check 'a directory keeps its own name' goes_to './hf/model.safetensors' ckpt hf
check 'but only the last one' goes_to './exp_avg/embed.weight.f32' "$zero3" --only embed.weight optim/exp_avg
check 'with / at its end it gives what it holds' goes_to './model.safetensors' ckpt hf/
check 'directories that a pattern matches come whole' \
    goes_to './optim/exp_avg/embed.weight.f32 ./optim/exp_avg_sq/embed.weight.f32 ./optim/step/embed.weight.f32' \
    "$zero3" --only embed.weight 'opt*'
check '** crosses directories, * does not' \
    goes_to './embed.weight.f32 ./optim/exp_avg/embed.weight.f32 ./optim/exp_avg_sq/embed.weight.f32 ./optim/step/embed.weight.f32 ./trained/embed.weight.f32' \
    "$zero3" '**embed.weight.*'
one_name() {
    rm -rf new && "$ZEROFS" cat ckpt layers.0.weight.f32 >want &&
        export_ ckpt layers.0.weight.f32 mine.f32 && cmp want mine.f32 &&
        export_ ckpt layers.0.weight.f32 new/dir/mine.f32 && cmp want new/dir/mine.f32 &&
        export_ ckpt layers.0.weight.f32 new && cmp want new/layers.0.weight.f32 &&
        export_ ckpt layers.0.weight.f32 mine.f32 && [ "$(ls -A new/dir)" = mine.f32 ]
}
check 'one file gets the name that is given, in a directory its own' one_name
not_replaced() {
    echo precious >mine.f32
    answers 5 'a different file already exists' export_ ckpt layers.0.weight.f32 mine.f32 && grep -q precious mine.f32 &&
        rm mine.f32
}
check 'and replaces no file' not_replaced
check 'a pattern keeps directories' goes_to './exp_avg/embed.weight.f32 ./exp_avg_sq/embed.weight.f32' \
    "$zero3" 'optim/exp*/embed.weight.f32'
check 'a presentation is found when it is named' goes_to './layers.0.weight.npy' ckpt 'npy/*.0.*'
check 'asked for twice, copied once' goes_to './layers.0.weight.f32' ckpt layers.0.weight.f32 ./layers.0.weight.f32
check 'two files are not made one' answers 2 'would both become back.bias.f32' \
    export_ "$zero3" optim/exp_avg/ optim/exp_avg_sq/ both
check 'what is not there is told' answers 5 'nosuch.f32: no such file' export_ ckpt nosuch.f32 x
check 'with what may be meant' answers 5 'did you mean layers.0.weight.f32' export_ ckpt layers.0.wieght.f32 x
check 'a pattern without a match is told' answers 5 'no file in this checkpoint matches' export_ ckpt '*.nosuch' x
check 'usage is told' answers 2 'needs a checkpoint' export_ ckpt x
check '-j is checked' answers 2 'jobs needs a number' export_ -j 0 ckpt / x
nothing_made() {
    [ ! -e x ] && [ ! -e both ]
}
check 'a refused export makes nothing' nothing_made

jobs_agree() {
    export_ -j 1 --all "$zero3" / one && export_ -j 8 --all "$zero3" / eight && diff -r one eight
}
check 'eight jobs write what one writes' jobs_agree
mtime_and_tidy() {
    [ "$(stat -c %Y all/layers.0.weight.f32)" = "$(stat -c %Y ckpt/.metadata)" ] &&
        [ -z "$(find all -name '.*' ! -name .)" ]
}
check 'files have the time of the checkpoint, and nothing else is left' mtime_and_tidy

closing_line() {
    rm -rf closing && export_ ckpt / closing 2>line && cat line && [ "$(wc -l <line)" = 1 ] &&
        grep -qE '^3 files, 14\.4 MiB in closing; copied in 0:[0-9]{2} \(.*/s\)$' line &&
        rm closing/layers.1.weight.f32 && export_ ckpt / closing 2>line && cat line &&
        grep -qE '^3 files, 14\.4 MiB in closing; 4\.8 MiB of them copied in' line &&
        export_ -q ckpt / closing 2>line && [ ! -s line ]
}
check 'a line at the end says what was copied, without -q' closing_line

# ---- digests
sums_agree() {
    export_ --sha256 ckpt layers.0.weight.f32 sums/ && export_ --sha256 ckpt / sums &&
        (cd sums && sha256sum -c --strict SHA256SUMS && [ "$(wc -l <SHA256SUMS)" = 3 ])
}
check 'sha256sum -c agrees, also with two exports to one place' sums_agree

# ---- zeros and ties
python3 "$mkdcp" holes --tensors 1 --ranks 2 --rows 40000 --cols 1000 --sparse
is_sparse() {
    export_ holes layers.0.weight.f32 sparse/ && ls -ls sparse &&
        [ "$(stat -c %s sparse/layers.0.weight.f32)" = 160000000 ] &&
        [ "$(stat -c %b sparse/layers.0.weight.f32)" -lt 1000 ]
}
check 'zeros become holes' is_sparse

python3 - <<'END'
import struct, zipfile
def tensor(shape):
    return (b'ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000'
            b'X\x03\0\0\0cpuK\x06tQK\0(' + shape + b'\x89ccollections\nOrderedDict\n)RtR')
def key(s):
    return b'X' + struct.pack('<I', len(s)) + s
pkl = b'\x80\x02}(' + b''.join(key(k) + tensor(b'K\x02K\x03t(K\x03K\x01t') for k in (b'embed.weight', b'head.weight')) + b'u.'
with zipfile.ZipFile('tied.pt', 'w') as z:
    z.writestr('tied/data.pkl', pkl)
    z.writestr('tied/byteorder', 'little')
    z.writestr('tied/data/0', struct.pack('<6f', *range(6)))
    z.writestr('tied/version', '3\n')
END
ties_stay() {
    rm -rf tied
    export_ "$@" --sha256 tied.pt / tied && ls -li tied &&
        [ "$(stat -c %h tied/embed.weight.f32)" = 2 ] &&
        [ "$(stat -c %i tied/embed.weight.f32)" = "$(stat -c %i tied/head.weight.f32)" ] && (cd tied && sha256sum -c SHA256SUMS) &&
        export_ tied.pt / tied
}
check 'ties stay hard links' ties_stay

# ---- what is there already
again() {
    before=$(stat -c %i all/layers.0.weight.f32)
    export_ ckpt / all && [ "$before" = "$(stat -c %i all/layers.0.weight.f32)" ]
}
check 'what is there already is kept' again
other() {
    rm -rf other && mkdir other && head -c 5040000 /dev/urandom >other/layers.0.weight.f32 &&
        cp other/layers.0.weight.f32 mine &&
        answers 5 'a different file already exists' export_ ckpt layers.0.weight.f32 other &&
        cmp mine other/layers.0.weight.f32
}
check 'another file of the same size is not replaced' other
forced() {
    export_ --force ckpt layers.0.weight.f32 other && cmp all/layers.0.weight.f32 other/layers.0.weight.f32
}
check 'Replace it with --force' forced
check 'the destination may not lie in the checkpoint' answers 2 'inside the checkpoint' export_ ckpt / ckpt/new/dir
check 'nor be it through a link' answers 2 'inside the checkpoint' sh -c \
    'ln -s ckpt alias; exec "$1" export ckpt / alias/new' sh "$ZEROFS"
check 'a file is no destination' answers 5 'Not a directory' export_ ckpt / mine

# ---- a hostile destination
mkdir outside trap1 trap2 trap3 trap4
echo precious >outside/file
ln -s ../outside trap1/exp_avg
hostile_dir() {
    answers 5 'is not a directory, or a link to one' export_ "$zero3" 'optim/*/embed.weight.f32' trap1 &&
        [ "$(ls outside)" = file ]
}
check 'a link to a directory in it is not followed' hostile_dir
ln -s ../outside/file trap2/layers.0.weight.f32
hostile_file() {
    answers 5 'exists and is not a regular file' export_ ckpt layers.0.weight.f32 trap2
    grep -q precious outside/file
}
check 'a link under the final name is not written through' hostile_file
hostile_forced() {
    export_ -f ckpt layers.0.weight.f32 trap2 && [ ! -L trap2/layers.0.weight.f32 ] &&
        grep -q precious outside/file
}
check 'nor with --force, which replaces the link' hostile_forced
ln -s ../outside/file trap3/.layers.0.weight.f32.part
ln -s ../outside/new trap4/.zerofs-export
hostile_part() {
    answers 5 'is in the way' export_ ckpt layers.0.weight.f32 trap3 && grep -q precious outside/file &&
        answers 5 'cannot write to the destination' export_ ckpt layers.0.weight.f32 trap4 &&
        [ "$(ls outside)" = file ]
}
check 'nor are links under the names it uses meanwhile' hostile_part

# ---- the CRCs of an archive, which a mount shows as 0
archive_sums() {
    "$ZEROFS" cat ckpt pytorch_model.bin >catted && export_ --sha256 ckpt pytorch_model.bin sums/ &&
        sums sums/pytorch_model.bin catted && (cd sums && sha256sum -c SHA256SUMS)
}
check 'an archive gets the CRCs of its members' archive_sums
archive_stays() {
    was=$(stat -c %i sums/pytorch_model.bin) && rm sums/SHA256SUMS && export_ --sha256 ckpt pytorch_model.bin sums/ &&
        [ "$(stat -c %i sums/pytorch_model.bin)" = "$was" ] && (cd sums && sha256sum -c SHA256SUMS)
}
check 'and is known by them the next time' archive_stays
archive_wrong() {
    cp catted sums/pytorch_model.bin &&
        answers 5 'a different file already exists' export_ ckpt pytorch_model.bin sums/ && cmp catted sums/pytorch_model.bin
}
check 'one without them is another one' archive_wrong
archive_resumed() {
    rm -rf sums && (ulimit -f 12000 && answers 5 'the copied part is kept' export_ ckpt pytorch_model.bin sums/) &&
        [ -s sums/.pytorch_model.bin.part ] && export_ --sha256 ckpt pytorch_model.bin sums/ >resumed && cat resumed &&
        sums sums/pytorch_model.bin catted && (cd sums && sha256sum -c SHA256SUMS)
}
check 'so has one that was copied in two runs' archive_resumed
# It ended while the CRCs were put in: all is copied, and of the first member one CRC is there.
archive_halfway() {
    mv sums/pytorch_model.bin whole.bin && rm -rf sums &&
        (ulimit -f 12000 && answers 5 'the copied part is kept' export_ ckpt pytorch_model.bin sums/) &&
        cat catted >sums/.pytorch_model.bin.part &&
        dd if=whole.bin of=sums/.pytorch_model.bin.part bs=1 skip=14 seek=14 count=4 conv=notrunc &&
        export_ ckpt pytorch_model.bin sums/ && cmp whole.bin sums/pytorch_model.bin
}
check 'or that ended while they were put in' archive_halfway
archive_cast() {
    "$ZEROFS" cat ckpt as/bf16/pytorch_model.bin >catted && export_ ckpt as/bf16/pytorch_model.bin sums/bf16.bin &&
        sums sums/bf16.bin catted && rm -r sums whole.bin catted
}
check 'and one of another type' archive_cast

# ---- out of room, interrupted, resumed
part=.layers.0.weight.f32.part
out_of_room() {
    rm -rf short
    answers 5 'the copied part is kept' sh -c 'ulimit -f 3000; exec "$1" export ckpt layers.0.weight.f32 short/' sh "$ZEROFS" &&
        ls -la short && [ "$(wc -l <sentence)" = 1 ] && [ ! -e short/layers.0.weight.f32 ] && [ -s "short/$part" ]
}
check 'a file that may not grow: one sentence, exit 5, the part is kept' out_of_room
# Only bytes that are not copied again can keep a mark.
mark() {
    printf MARK | dd of="$1" bs=1 seek=100 conv=notrunc 2>/dev/null
}
resumed() {
    mark "short/$part" && export_ ckpt layers.0.weight.f32 short/ &&
        [ "$(dd if=short/layers.0.weight.f32 bs=1 skip=100 count=4 2>/dev/null)" = MARK ] &&
        cmp all/layers.0.weight.f32 short/layers.0.weight.f32 | grep -q 'byte 101'
    [ "$(cmp -l all/layers.0.weight.f32 short/layers.0.weight.f32 | wc -l)" -le 4 ] && [ "$(find short -type f | wc -l)" = 1 ]
}
check 'the same command goes on where it stopped' resumed
starts_again() {
    out_of_room && mark "short/$part" && touch -d @1000000000 ckpt/__0_0.distcp &&
        export_ ckpt layers.0.weight.f32 short/ && cmp all/layers.0.weight.f32 short/layers.0.weight.f32
}
check 'after a change of the shards it starts again' starts_again
# rewritten CKPT: its first shard gets other bytes in place, and its old time back.
rewritten() {
    python3 -B - "$1/__0_0.distcp" <<'EOF'
import os
import sys

st = os.stat(sys.argv[1])
with open(sys.argv[1], "r+b") as f:
    old = os.pread(f.fileno(), 1 << 20, 1 << 20)
    os.pwrite(f.fileno(), bytes(b ^ 0xff for b in old), 1 << 20)
os.utime(sys.argv[1], ns=(st.st_atime_ns, st.st_mtime_ns))
EOF
}
# never_mixed CKPT FILE: what is copied before and after the shard was rewritten is one checkpoint's.
never_mixed() {
    rm -rf short before
    export_ "$1" "$2" before/ &&
        answers 5 'the copied part is kept' sh -c 'ulimit -f 3000; exec "$1" export "$2" "$3" short/' sh "$ZEROFS" "$1" "$2" &&
        rewritten "$1" && export_ "$1" "$2" short/ && "$ZEROFS" cat "$1" "$2" >now && cmp now "short/${2##*/}" &&
        ! cmp -s "before/${2##*/}" now
}
check 'also when its size and time are what they were' never_mixed ckpt layers.0.weight.f32
check 'for a presentation' never_mixed ckpt npy/layers.0.weight.npy
check 'for a type that is converted' never_mixed ckpt as/bf16/layers.0.weight.bf16
cp -r ckpt 'run!7'
check 'in a directory with ! in its name' never_mixed 'run!7' layers.0.weight.f32
rewritten ckpt
after_power_loss() {
    out_of_room && mark "short/$part" && sed -i -e 's/^boot .*/boot other/' -e 's/^part \([0-9a-f]*\) [0-9]*/part \1 0/' \
        short/.zerofs-export && export_ ckpt layers.0.weight.f32 short/ &&
        cmp all/layers.0.weight.f32 short/layers.0.weight.f32
}
check 'after a restart only what was certainly on the disk is believed' after_power_loss
torn_journal() {
    out_of_room && printf 'part 12' >>short/.zerofs-export && export_ ckpt layers.0.weight.f32 short/ &&
        cmp all/layers.0.weight.f32 short/layers.0.weight.f32
}
check 'a torn line of the journal spoils nothing' torn_journal

mkdir small
if mount -t tmpfs -o size=7m none "$small" 2>/dev/null; then
    : >mounted
    full_disk() {
        answers 5 'No space left on device' export_ -j 1 ckpt / "$small" && [ "$(wc -l <sentence)" = 1 ] &&
            cmp all/layers.0.weight.f32 "$small/layers.0.weight.f32" && [ -s "$small/.layers.1.weight.f32.part" ] &&
            [ ! -e "$small/layers.1.weight.f32" ]
    }
    check 'a full disk: one sentence, exit 5, what is complete stays' full_disk
    more_room() {
        mount -o remount,size=24m none "$small" && export_ ckpt / "$small" && diff -r all "$small"
    }
    check 'with more room the same command ends it' more_room
else
    skip 'a full disk' 'tmpfs cannot be mounted here'
    skip 'with more room' 'tmpfs cannot be mounted here'
fi

# Hundreds of GB of holes: far more than can be copied before the signal arrives.
python3 "$mkdcp" huge --tensors 100 --ranks 2 --rows 200000 --cols 4000 --sparse
certain() {
    grep -c '^part [0-9a-f]* [1-9]' big/.zerofs-export 2>/dev/null || true
}
further_than() {
    [ "$(certain)" -gt "$1" ]
}
interrupted() {
    at=$(certain)
    export_direct huge model.safetensors big/
    until_true further_than "${at:-0}" && kill "-$1" "$pid"
    until_true ended "$pid" || kill -9 "$pid"
    wait "$pid"
    code=$?
    pid=
    cat killed
    ls -la big
    [ $code = "$2" ] && [ -e big/.model.safetensors.part ] && [ ! -e big/model.safetensors ]
}
export_direct() {
    "$ZEROFS" export "$@" 2>killed &
    pid=$!
}
check 'SIGTERM ends it in good order' interrupted TERM 143
check 'and says how to go on' grep -q 'repeat the command' killed
check 'SIGKILL leaves the part' interrupted KILL 137
only_one() {
    export_direct huge model.safetensors big/
    until_true further_than "$(certain)" || return 1
    answers 5 'another export is running' export_ huge model.safetensors big/
    code=$?
    kill -9 "$pid"
    wait "$pid"
    pid=
    return $code
}
check 'two exports do not write to one place at once' only_one
grows() {
    grep '^part' big/.zerofs-export | cut -d' ' -f3 >steps && cat steps && sort -nc steps
}
check 'each run went on behind the one before' grows
# Many files, of which some have their names, some are whole and nameless, and one is half, when it is killed.
python3 "$mkdcp" many --tensors 300 --ranks 1 --rows 400 --cols 512
export_ many / want_many
some_named() {
    grep -q '^done' killed_many/.zerofs-export
}
killed_midway() {
    rm -rf killed_many
    export_direct -j 2 many / killed_many
    until_true some_named && kill -9 "$pid"
    wait "$pid"
    pid=
    for f in killed_many/*.f32; do
        cmp "$f" "want_many/${f##*/}" || return 1
    done
    before=$(find killed_many -name '*.f32' | wc -l)
    export_ many / killed_many && diff -r want_many killed_many && [ "$before" -gt 0 ]
}
check 'killed between many files: each that has its name is whole, and the rest follows' killed_midway

# A shard that is replaced, or written to, while a file is copied from it.
replaced_midway() {
    rm -rf moving && cp -r --sparse=always huge moving && rm -rf big
    answers_direct() {
        export_direct moving model.safetensors big/
        until_true further_than 0 || return 1
        "$@" || return 1
        until_true ended "$pid" || kill -9 "$pid"
        wait "$pid"
        code=$?
        pid=
        cat killed
        [ $code = 5 ] && [ ! -e big/model.safetensors ]
    }
    answers_direct "$@"
}
other_shard() {
    truncate -s "$(stat -c %s moving/__0_0.distcp)" new.distcp && mv new.distcp moving/__0_0.distcp
}
check 'a shard that is replaced meanwhile ends it, and no file gets its name' replaced_midway other_shard
check 'and says so' grep -qE 'deleted or replaced|another file has taken|metadata changed' killed
written_to() {
    printf x | dd of=moving/__0_0.distcp bs=1 seek=5000 conv=notrunc 2>/dev/null
}
check 'one that is written to as well' replaced_midway written_to
# A cut shard: the healthy files are there, the others are one list, and nothing is left of them.
whole=$ZF_DATA/hf/transformers5.23.0_llama_tied_bf16_single
mkdir cut
cp "$whole"/*.json cut
head -c 10024 "$whole/model.safetensors" >cut/model.safetensors
damaged() {
    rm -rf dest wanted
    export_ -o degraded cut / dest 2>list </dev/null
    got=$?
    cat list
    [ $got = 5 ] && [ "$(head -n 1 list)" = 'zerofs: 4 of 22 files could not be exported:' ] &&
        [ "$(wc -l <list)" = 5 ] || return 1
    for t in self_attn.o_proj.weight:312:511 self_attn.q_proj.weight:0:511 self_attn.v_proj.weight:0:255; do
        name=model.layers.1.${t%%:*}
        range=${t#*:}
        grep -qE "^  $name.bf16: .*/?cut/model.safetensors: ends at byte 10024; bytes ${range%:*} to ${range#*:} of the tensor \"$name\" are lost\$" \
            list || return 1
    done
    export_ "$whole" / wanted && find dest -name '.*' -type f | grep . && return 1
    (cd wanted && find . -type f) | while read -r f; do
        if grep -qF "  ${f#./}: " list; then
            [ ! -e "dest/$f" ] || { echo "$f is there"; exit 1; }
        else
            cmp "wanted/$f" "dest/$f" || exit 1
        fi
    done
}
check 'files with lost bytes are listed at the end, and leave nothing behind' damaged
bulk_damaged() {
    rm -rf dest
    answers 5 'model.safetensors: ' export_ -o degraded cut model.safetensors as/bf16/pytorch_model.bin \
        npy/model.norm.weight.npy dest2 || return 1
    [ "$(grep -c '^  ' sentence)" = 3 ] && [ -z "$(find dest2 -type f)" ]
}
check 'so are bulk files' bulk_damaged
check 'lost=omit: the same are whole' export_ -o degraded,lost=omit cut model.safetensors pytorch_model.bin dest3
check 'lost=nan: nothing fails' export_ -a -o degraded,lost=nan cut / dest4

# Blocks that line up are shared on a file system that can: two tensors of three, the last of which begins in a block.
shares() {
    python3 - shared <<'EOF' || return
import json, os, struct, sys
n, d = 8 << 20, sys.argv[1] + '/st'
os.mkdir(d)
at = [0, n, 2 * n + 4, 3 * n + 4]
head = json.dumps({k: {'dtype': 'U8', 'shape': [b - a], 'data_offsets': [a, b]} for k, a, b in zip('abc', at, at[1:])}).encode()
data = os.urandom(at[-1])
head = head.ljust(4096 - 8)
open(d + '/model.safetensors', 'wb').write(struct.pack('<Q', len(head)) + head + data)
for k, a, b in zip('abc', at, at[1:]):
    open(f'{sys.argv[1]}/{k}.u8', 'wb').write(data[a:b])
EOF
    sync
    before=$(df --output=used -k shared | tail -n 1)
    "$ZEROFS" export -q shared/st '*.u8' shared/out || return
    sync
    after=$(df --output=used -k shared | tail -n 1)
    for k in a b c; do
        cmp shared/$k.u8 shared/out/$k.u8 || return
    done
    [ $((after - before)) -lt 12000 ] # one tensor of three, in KiB
}
mkdir shared
if truncate -s 300M xfs.img && mkfs.xfs -q -m reflink=1 xfs.img 2>/dev/null && mount -o loop xfs.img shared 2>/dev/null; then
    check 'blocks that line up are shared' shares
    umount shared
else
    skip 'blocks that line up are shared' 'no xfs can be made or mounted here'
fi

echo "1..$n"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ls, info, cat and the words around them: data on stdout, sentences on stderr, the documented exit codes.
NO_MOUNT=1
# shellcheck source=tests/mount/lib.sh
. "${top_srcdir:?run by make check}/tests/mount/lib.sh"

c=$ZF_DATA/deepspeed/zero3_w2
cd "$tmp" || exit 99

# prints REGEX COMMAND...: exit code 0, nothing on stderr, and a line that matches on stdout.
prints() {
    regex=$1
    shift
    "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
    head -n 20 "$tmp/out"
    cat "$tmp/err"
    [ "$got" = 0 ] || { echo "exit code $got"; return 1; }
    [ ! -s "$tmp/err" ] || { echo 'something was printed on stderr'; return 1; }
    grep -qE -e "$regex" "$tmp/out" || { echo "expected /$regex/"; return 1; }
}

# warned OPTION: a warning that names it, and all goes on.
warned() {
    "$ZEROFS" ls -R -o "$1" "$c" >"$tmp/out" 2>"$tmp/err" && cat "$tmp/err" &&
        [ "$(cat "$tmp/err")" = "zerofs: warning: $1 matches no tensor" ] && grep -q '^embed.weight.f32$' "$tmp/out"
}

# ---- help and version ----
check '--help' prints '^Usage: zerofs' "$ZEROFS" --help
check '-h' prints '^Usage: zerofs' "$ZEROFS" -h
check '--version' prints '^zerofs [0-9]+\.[0-9]+' "$ZEROFS" --version
# What each library that the program loads says of itself, linked or loaded late.
versions() {
    "$ZEROFS" --version >"$tmp/out" 2>"$tmp/err" && ldd "$ZEROFS" >"$tmp/ldd" &&
        { LD_DEBUG=libs "$ZEROFS" --version 2>&1 >/dev/null | sed -n 's/.*calling init: /=> /p' >>"$tmp/ldd"; } && python3 - "$tmp/ldd" "$tmp/out" <<'EOF'
import ctypes, re, sys
asked = {'libzip': 'zip_libzip_version', 'zlib': 'zlibVersion', 'libfuse': 'fuse_pkgversion', 'jansson': 'jansson_version_str',
         'libzstd': 'ZSTD_versionString', 'liblz4': 'LZ4_versionString', 'libyaml': 'yaml_get_version_string',
         'c-blosc': 'blosc_get_version_string'}
files = {'zlib': 'libz', 'libfuse': 'libfuse3', 'jansson': 'libjansson', 'libyaml': 'libyaml-0', 'c-blosc': 'libblosc'}
loaded, told = open(sys.argv[1]).read(), open(sys.argv[2]).read()
for name, function in asked.items():
    found = re.search(r'=> (\S*/' + re.escape(files.get(name, name)) + r'\.so\S*)', loaded) or \
        re.search(r'=> (\S*/' + re.escape(files.get(name, name)) + r'[.0-9-]*\.so\S*)', loaded)
    if found:
        call = getattr(ctypes.CDLL(found[1]), function)
        call.restype = ctypes.c_char_p
        line = f'{name} {call().decode()}'
    else:
        line = f'{name} missing: '
    assert f'\n{line}' in told, line
    print(line)
assert re.search(r'^libdeflate (\d|missing: )', told, re.M)[1].isdigit() == ('libdeflate.so' in loaded), told
EOF
}
check '--version names the libraries that are loaded' versions
# Libraries that are loaded late and are none.
no_late() {
    mkdir -p "$tmp/no" && : >"$tmp/no/libcurl.so.4" && : >"$tmp/no/libblosc.so.1" &&
        LD_LIBRARY_PATH="$tmp/no" "$ZEROFS" --version >"$tmp/out" &&
        grep -qE '^libcurl missing: no checkpoints behind addresses: .*libcurl' "$tmp/out" &&
        grep -qE '^c-blosc missing: no chunks compressed by blosc: ' "$tmp/out" && grep -q '^libzip [0-9]' "$tmp/out"
}
check '--version says what is missing' no_late
for command in mount umount ls info cat index; do
    check "$command --help" prints "^Usage: zerofs $command " "$ZEROFS" $command --help
    check "$command with a wrong option" says 2 "^zerofs $command: .*--bogus" "$ZEROFS" $command --bogus
    check "$command without words" says 2 "^zerofs $command: needs" "$ZEROFS" $command
done
no_words() {
    "$ZEROFS" >"$tmp/out" 2>"$tmp/err"
    [ $? = 2 ] && [ ! -s "$tmp/out" ] && grep -q '^Usage' "$tmp/err"
}
check 'no words at all' no_words
# An address of a file is that of a path, in which bytes may be written as %XX.
file_address() {
    cp -r "$c" "$tmp/a b%" && "$ZEROFS" ls -R "$tmp/a b%" >"$tmp/want" || return 1
    for address in "file://$tmp/a%20b%25" "file://localhost$tmp/a%20b%25/" "FILE://LocalHost$tmp/%61 b%25"; do
        "$ZEROFS" ls -R "$address" >"$tmp/out" && cmp "$tmp/want" "$tmp/out" || return 1
    done
    for address in "file://host$tmp/a%20b%25" "file://$tmp/a%20b%2" "file://$tmp/a%20b%25%00" 'file://' 'file://localhost'; do
        says 2 "^zerofs: $address: expected file:///PATH" "$ZEROFS" ls -R "$address" || return 1
    done
}
check 'an address of a file' file_address
check 'a word that is no command' says 2 'frobnicate' "$ZEROFS" frobnicate
check 'a command with a slip in it' says 2 'did you mean export?' "$ZEROFS" exprot "$c" / x
check 'an option with a slip in it' says 2 'did you mean --tag?' "$ZEROFS" ls --tga=x "$c"
check 'the same among -o' says 2 'did you mean degraded?' "$ZEROFS" ls -R -o degarded "$c"
check 'options may come before the command' prints '^ +140  f32 +\[7, 5\]  embed.weight.f32$' "$ZEROFS" -o only=embed.weight -l ls "$c"
takes() {
    "$ZEROFS" "$1" --help >"$tmp/out" && cat "$tmp/out" && for word in $2; do grep -q "^  $word" "$tmp/out" || return 1; done &&
        for word in $3; do ! grep -q "^  $word" "$tmp/out" || return 1; done
}
check 'umount --help lists no option of a checkpoint' takes umount '-z' 'tag degraded umask'
check 'info --help lists none of the tree' takes info 'tag degraded' 'keep shard_size umask'
check 'cat --help lists none of mount' takes cat 'tag keep' 'umask'
check 'umount takes no option of a checkpoint' says 2 'unknown' "$ZEROFS" umount --tag=x /
for option in strip_prefix=modle. 'rename=nosuch=x' 'except=nosuch*' 'keep=nosuch*'; do
    check "$option that fits nothing" warned "$option"
done
check 'an = may be part of a rule' prints '^embed=weight.f32$' "$ZEROFS" ls -R "$c" --only embed.weight '--rename=d\.w=d\=w'

# ---- ls ----
check 'ls' prints '^embed.weight.f32$' "$ZEROFS" ls -R "$c"
check 'ls -l' prints '^ +140  f32 +\[7, 5\]  embed.weight.f32$' "$ZEROFS" ls -R -l "$c"
listed() {
    expected=$1
    shift
    "$ZEROFS" ls "$@" >"$tmp/out" 2>&1 && cat "$tmp/out" && [ "$(tr '\n' ' ' <"$tmp/out")" = "$expected " ]
}
check 'ls DIR: one level' listed 'optim/exp_avg/ optim/exp_avg_sq/ optim/step/' "$c" optim
check 'ls DIR/DIR' listed 'optim/exp_avg/as/ optim/exp_avg/hf/ optim/exp_avg/npy/ optim/exp_avg/l1.bias.f32' \
    "$c" optim/exp_avg --only l1.bias --show=raw,npy,hf,as,optim
check 'ls of a presentation' listed 'hf/model.safetensors' "$c" hf
check 'ls of the root' prints '^state/$' "$ZEROFS" ls "$c" /
check 'ls -R DIR' listed 'optim/exp_avg/l1.bias.f32 optim/exp_avg_sq/l1.bias.f32 optim/step/l1.bias.f32' \
    -R "$c" optim --only l1.bias
check 'ls of several paths' listed 'embed.weight.f32 optim/step/l1.bias.f32' "$c" embed.weight.f32 '*/step/l1.bias*'
check '* stops at /' listed 'l1.bias.f32' "$c" '*l1.bias*'
check '** does not' prints '^optim/exp_avg/l1.bias.f32$' "$ZEROFS" ls "$c" '**l1.bias*'
check 'ls -lh' prints '^ +1.5 KiB  -        -  model.safetensors$' "$ZEROFS" ls -lh "$c" model.safetensors
check 'a pattern finds presentations too' prints '^as/bf16/l1.bias.bf16$' "$ZEROFS" ls "$c" 'as/bf16/l1*'
check 'ls -a' prints '^npy/l1.bias.npy$' "$ZEROFS" ls -R -a "$c"
check 'options as -o and as --name' prints '^1.bias.f32$' "$ZEROFS" ls -R "$c" -o only=l1.bias --strip_prefix=l
check 'options after --' says 5 '^zerofs: --strange: .*No such file' "$ZEROFS" ls -- --strange
check 'a format by name' prints '^embed' "$ZEROFS" ls -R "$c" --format=deepspeed
check 'ls of a pattern without a match' says 1 '^zerofs: nothing\*: no file in this checkpoint matches$' "$ZEROFS" ls "$c" 'nothing*'
check 'ls of a near miss' says 1 'did you mean l1.weight.f32\?$' "$ZEROFS" ls "$c" l1.wieght.f32
check 'ls of a name without its suffix' says 1 'did you mean l1.weight.f32' "$ZEROFS" ls "$c" l1.weight
check 'the name in a JSON line is the one listed' look ties "$ZEROFS" "$ZF_DATA"
null_ends() {
    "$ZEROFS" ls -R -0 "$c" | tr '\0' '\n' >"$tmp/zero" && "$ZEROFS" ls -R "$c" | cmp - "$tmp/zero"
}
check 'ls -0' null_ends
check 'ls --json: one object a line' look ls_json "$ZEROFS" "$c"
check 'ls lists every file that cat can read' look all_readable "$ZEROFS" "$c"
check 'names are one line each, whatever the checkpoint says' look odd_names "$ZEROFS" "$tmp/odd.safetensors"

# ---- info ----
check 'info' prints '^weights +[0-9]+ parameters in ' "$ZEROFS" info "$c"
check 'info -v' prints '^format +deepspeed: ' "$ZEROFS" info -v -o model_cache=off "$c"
check 'info --json' look info_json "$ZEROFS" "$c"

# ---- cat ----
check 'cat gives the recorded bytes' look cat_digest "$ZEROFS" "$c"
check 'cat of a path that is not there' says 5 'nope: no such file' "$ZEROFS" cat "$c" nope
check 'cat of a near miss' says 5 'did you mean l1.weight.f32' "$ZEROFS" cat "$c" l1.weight
cats_pattern() {
    "$ZEROFS" cat "$c" l1.bias.f32 l1.weight.f32 >"$tmp/two" && "$ZEROFS" cat "$c" 'l1.*' | cmp - "$tmp/two" && [ -s "$tmp/two" ]
}
check 'cat of a pattern' cats_pattern
check 'cat of a directory' says 2 'optim: is a directory' "$ZEROFS" cat "$c" optim
check 'a terminal is shown no bytes that are no text' look ls_terminal "$ZEROFS" "$tmp"
check 'tensors are not written to a terminal, text is' look cat_terminal "$ZEROFS" "$c"

# ---- outputs that cannot be written ----
for command in '--help' '--version' "ls $c" "info $c" "info --json $c" "cat $c l1.bias.f32"; do
    full() {
        # shellcheck disable=SC2086 # a list of words
        "$ZEROFS" $command >/dev/full 2>"$tmp/err"
        got=$?
        cat "$tmp/err"
        [ $got = 5 ] && grep -q 'standard output: No space left' "$tmp/err"
    }
    closed() {
        # shellcheck disable=SC2086 # a list of words
        "$ZEROFS" $command >&- 2>"$tmp/err"
        got=$?
        cat "$tmp/err"
        [ $got = 5 ] && grep -q 'standard output: Bad file descriptor' "$tmp/err"
    }
    what=$(echo "$command" | sed "s|$ZF_DATA/||")
    check "$what onto a full disk" full
    check "$what with stdout closed" closed
done
check 'all streams closed' sh -c "'$ZEROFS' info '$c' <&- >&- 2>&-; [ \$? = 5 ]"

# ---- what is no checkpoint, or a damaged one ----
mkfifo fifo
mkdir empty dir
ln -s loop loop
ln -s nowhere dangling
echo hello >text
: >nothing
mkdir fifos && cp -r "$c/." fifos && rm fifos/global_step3/*_1_*optim* &&
    mkfifo fifos/global_step3/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt
head -c 3000 "$c/global_step3/zero_pp_rank_0_mp_rank_00_model_states.pt" >cut.pt
mkdir cut && cp -r "$c/." cut && head -c 3000 "$c/global_step3/zero_pp_rank_0_mp_rank_00_model_states.pt" \
    >cut/global_step3/zero_pp_rank_0_mp_rank_00_model_states.pt
mkdir stale && cp -r "$c/global_step3" stale && echo global_step9 >stale/latest
# info goes on to say what is left.
refuses() {
    "$@" >"$tmp/left"
}
for command in ls info; do
    check "$command of a path that is not there" says 5 '^zerofs: nowhere: .*No such file' "$ZEROFS" $command nowhere
    check "$command of a FIFO" says 3 '^zerofs: fifo: ' timeout 60 "$ZEROFS" $command fifo
    check "$command of a device" says 3 '^zerofs: /dev/null: ' "$ZEROFS" $command /dev/null
    check "$command of a link to itself" says 5 '^zerofs: loop: .*symbolic links' "$ZEROFS" $command loop
    check "$command of a dangling link" says 5 '^zerofs: dangling: ' "$ZEROFS" $command dangling
    check "$command of an empty directory" says 3 '^zerofs: empty: ' "$ZEROFS" $command empty
    check "$command of an empty file" says 3 '^zerofs: nothing: ' "$ZEROFS" $command nothing
    check "$command of a text" says 3 '^zerofs: text: ' "$ZEROFS" $command text
    check "$command of a truncated file" says 4 '^zerofs: cut.pt: ' "$ZEROFS" $command cut.pt
    check "$command of a checkpoint with a truncated file" says 4 'model_states.pt: ' refuses "$ZEROFS" $command cut
    check "$command of a checkpoint with a FIFO as shard" says 4 'optim_states.pt' refuses timeout 60 "$ZEROFS" $command fifos
    check "$command of a stale latest" says 4 'global_step9' "$ZEROFS" $command stale
done
check 'nothing was written into any checkpoint' sh -c "[ -z \"\$(find '$c' -newer '$tmp/fifo')\" ]"
finish

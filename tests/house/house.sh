#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The house rules, as tests.
: "${top_srcdir:?run by make check}" "${top_builddir:?run by make check}"
n=0

check() {
    n=$((n + 1))
    what=$1
    shift
    if out=$("$@" 2>&1); then
        echo "ok $n - $what"
    else
        echo "not ok $n - $what"
        echo "$out" | sed 's/^/# /'
    fi
}

# Names of every option and limit stand in the manual.
manual_is_complete() {
    sed -n 's/^OPT("\([a-z_]*\)".*/\1/p' "$top_srcdir/src/cmd/options.def" | while read -r option; do
        grep -qs "$option" "$top_srcdir/man/zerofs-mount.1" || echo "zerofs-mount.1 lacks the option $option"
    done
    sed -n 's/^ *X(\([a-z_]*\),.*/\1/p' "$top_srcdir/include/zf/base/limits.h" | while read -r limit; do
        grep -qs "$limit" "$top_srcdir/man/zerofs.1" || echo "zerofs.1 lacks the limit $limit"
    done
}
manual() {
    lacks=$(manual_is_complete)
    echo "$lacks"
    [ -z "$lacks" ]
}

completions_parse() {
    for shell in zsh:_zerofs fish:zerofs.fish bash:zerofs.bash; do
        ! command -v "${shell%:*}" >/dev/null || "${shell%:*}" -n "$top_srcdir/completions/${shell#*:}" || return 1
    done
}

# What bash would offer behind a line, one a line; the last word is completed.
bash_offers() {
    bash --norc -c '
        compopt() { :; }
        . "$1/completions/zerofs.bash"
        shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=1000
        _zerofs
        printf "%s\n" "${COMPREPLY[@]}"' bash "$top_srcdir" "${ZEROFS:-$top_builddir/zerofs}" "$@" | sort
}
# completes EXPECTED WORD...: the offers, separated by blanks.
completes() {
    expected=$1
    shift
    found=$(bash_offers "$@" | tr '\n' ' ')
    echo "found: $found"
    [ "$found" = "$expected " ]
}
bash_completes() {
    c=$top_srcdir/tests/data/deepspeed/zero3_w2
    completes 'umount' um && completes '--sha256 --shard_size= --show=' export --sh && completes '--only=' ls --onl &&
        completes 'read_ahead=' mount -o read && completes 'optim/' cat "$c" op &&
        completes 'optim/exp_avg/ optim/exp_avg_sq/' export -j 2 "$c" optim/e &&
        completes 'optim/exp_avg/embed.weight.f32' cat "$c" optim/exp_avg/em && completes 'clear' cache cl &&
        completes 'degraded' mount -o deg && completes 'nan,degraded' mount -o lost=nan,deg &&
        completes 'megatron' ls --format=meg && completes 'direct' mount -o degraded,io=d &&
        completes 'current' mount -o cur && completes 'recipe=' mount -o rec && completes 'off' mount -o recipe= &&
        completes 'only=' ls -o onl && completes '--quick' verify --qu && completes 'global_step3' mount "$c" -o tag=gl
}
fish_completes() {
    offers=$(PATH=${ZEROFS%/*}:$PATH fish -N -c 'source $argv[1]/completions/zerofs.fish
        set -l c $argv[1]/tests/data/deepspeed/zero3_w2
        complete -C "zerofs um"; complete -C "zerofs umount --l"; complete -C "zerofs mount --io=d"
        complete -C "zerofs mount -o degr"; complete -C "zerofs ls -o lost=nan,format=meg"; complete -C "zerofs ls --format=meg"
        complete -C "zerofs mount $c -o tag=gl"; complete -C "zerofs mount $c -o lost=nan,tag="; complete -C "zerofs info $c --tag=gl"' \
        "$top_srcdir" | cut -f1 | tr '\n' ' ')
    echo "found: $offers"
    [ "$offers" = "umount --lazy --io=direct degraded lost=nan,format=megatron --format=megatron tag=global_step3 \
lost=nan,tag=global_step3 --tag=global_step3 " ]
}
# What a line becomes in zsh by the tabulator key, one a line: zsh completes on a terminal only.
zsh_lines() {
    PATH=${ZEROFS%/*}:$PATH timeout 60 zsh -f /dev/fd/3 "$top_srcdir" "$@" 3<<'EOF'
zmodload zsh/zpty || exit 1
zpty zsh zsh -f -i
# the word that is waited for is not in the line that is echoed
zpty -w zsh 'PS1=; stty -echo; fpath=('$1'/completions $fpath); autoload -Uz compinit _zerofs && compinit -u -D; compdef _zerofs zerofs
    show() { print -r -- "<$BUFFER>"; BUFFER=; }; zle -N show; bindkey "^X" show; print re""ady'
zpty -r zsh line '*ready*' || exit 1
shift
for words in "$@"; do
    zpty -w -n zsh "$words"$'\t\x18'
    zpty -r zsh line '*<*>*' || exit 1
    print -r -- ${${${line##*<}%%>*}% }
done
zpty -d zsh
EOF
}
zsh_completes() {
    c=$top_srcdir/tests/data/deepspeed/zero3_w2
    found=$(zsh_lines 'zerofs um' 'zerofs umount --l' 'zerofs ls --format=meg' 'zerofs mount -o degr' 'zerofs mount -o degraded,io=d' \
        "zerofs mount $c -o lost=nan,tag=gl" "zerofs info $c --tag=gl" "zerofs cat $c optim/exp_avg/em")
    echo "$found"
    [ "$found" = "zerofs umount
zerofs umount --lazy
zerofs ls --format=megatron
zerofs mount -o degraded
zerofs mount -o degraded,io=direct
zerofs mount $c -o lost=nan,tag=global_step3
zerofs info $c --tag=global_step3
zerofs cat $c optim/exp_avg/embed.weight.f32" ]
}

# Folders of tests/data down to the one that is a set; what a set holds needs no line.
data_is_described() {
    (
        cd "$top_srcdir/tests/data" || exit
        for d in * deepspeed/* hf/* dcp/* dcp/*/*; do
            [ ! -d "$d" ] || grep -qF "\`$(basename "$d")\`" README.md || grep -q "^## $d:\{0,1\}" README.md || echo "tests/data/README.md lacks $d"
        done
    )
}
data() {
    lacks=$(data_is_described)
    echo "$lacks"
    [ -z "$lacks" ]
}

short_files() {
    long=$(find "$top_srcdir/src" -name '*.c' -size +12k -exec wc -l {} + | awk '$2 != "total" && $1 > 600')
    echo "$long"
    [ -z "$long" ]
}

scripts_are_sound() {
    shellcheck -x -P "$top_srcdir" "$top_srcdir"/scripts/quickstart "$top_srcdir"/scripts/test* \
        "$top_srcdir"/scripts/check-* "$top_srcdir"/scripts/bootstrap "$top_srcdir"/scripts/sources "$top_srcdir"/.ci/run "$top_srcdir"/completions/zerofs.bash
}

words_are_spelled() {
    # It reads .codespellrc where it runs.
    (
        cd "$top_srcdir" || exit
        codespell README.md NEWS SECURITY.md CONTRIBUTING.md docs man src include scripts tests/data/README.md
    )
}

check 'includes follow the arrows' "$top_srcdir/scripts/check-layers"
check 'headers compile alone, files say their licence' "$top_srcdir/scripts/check-headers"
check 'no source has more than 600 lines' short_files
check 'rooms show only what they mean to' "$top_srcdir/scripts/check-symbols" "$top_builddir"
check 'sources.mk lists the files that are there' "$top_srcdir/scripts/sources" --check
check 'every format has its source, tests and page' "$top_srcdir/scripts/check-formats"
check 'the manual lists every option and limit' manual
check 'tests/data says how each set was made' data
if command -v bash >/dev/null 2>&1; then
    check 'completions are sound' completions_parse
    check 'bash completes commands, options and names in a checkpoint' bash_completes
else
    n=$((n + 2))
    echo "ok $((n - 1)) # SKIP bash is not installed"
    echo "ok $n # SKIP bash is not installed"
fi
if command -v fish >/dev/null 2>&1; then
    check 'fish completes commands, options and values' fish_completes
else
    n=$((n + 1))
    echo "ok $n # SKIP fish is not installed"
fi
if zsh -f -c 'zmodload zsh/zpty' 2>/dev/null; then
    check 'zsh completes commands, options, values and names in a checkpoint' zsh_completes
else
    n=$((n + 1))
    echo "ok $n # SKIP zsh with zpty is not installed"
fi
if "$top_srcdir/scripts/check-layout" --found >/dev/null; then
    check 'sources are laid out by clang-format' "$top_srcdir/scripts/check-layout"
else
    n=$((n + 1))
    echo "ok $n # SKIP clang-format 14 is not installed"
fi
# Debian 12's: an older or newer one finds other things.
if shellcheck --version 2>/dev/null | grep -qx 'version: 0\.9\..*'; then
    check 'scripts are sound' scripts_are_sound
else
    n=$((n + 1))
    echo "ok $n # SKIP shellcheck 0.9 is not installed"
fi
# Debian 12's: another one has other words.
if codespell --version 2>/dev/null | grep -qx '2\.2\..*'; then
    check 'words are spelled right' words_are_spelled
else
    n=$((n + 1))
    echo "ok $n # SKIP codespell 2.2 is not installed"
fi
if command -v mandoc >/dev/null 2>&1; then
    check 'man pages are well formed' mandoc -T lint -W warning "$top_srcdir"/man/*.[0-9]
else
    n=$((n + 1))
    echo "ok $n # SKIP mandoc is not installed"
fi
echo "1..$n"

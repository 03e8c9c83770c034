# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of zerofs(1) for bash.  Commands and options come from `zerofs --complete`, names inside a checkpoint from `zerofs ls`.

# _zerofs_words [COMMAND]: the commands, or the options of one; those that need a value end in "=".
_zerofs_words() {
    "${words[0]}" --complete "$@" 2>/dev/null | cut -f1
}

# _zerofs_offer WORD...: those that continue what stands at the cursor; a name that ends in "=" or "/" goes on.
_zerofs_offer() {
    local IFS=$'\n'

    mapfile -t COMPREPLY < <(compgen -W "$*" -- "$cur")
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace
}

_zerofs_paths() {
    mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
    compopt -o filenames
}

# Files of the checkpoint's tree, one directory at a time.  A pattern may not hold the word itself: it is escaped.
_zerofs_names() {
    local ckpt=$1 dir='' pattern name rest
    local -A seen=()

    ckpt=${ckpt/#~\//$HOME/}
    [[ $cur == */* ]] && dir=${cur%/*}/
    pattern=$(printf '%s' "$dir" | sed 's/[][*?\\]/\\&/g')
    while IFS= read -r -d '' name; do
        rest=${name#"$dir"}
        [[ $rest == */* ]] && rest=${rest%%/*}/
        [[ $dir$rest == "$cur"* ]] && seen[$dir$rest]=1
    done < <("${words[0]}" ls -0 "$ckpt" "$pattern*" 2>/dev/null)
    if [[ -z $dir ]]; then
        for name in npy/ as/ hf/ model.safetensors pytorch_model.bin; do
            [[ $name == "$cur"* ]] && seen[$name]=1
        done
    fi
    COMPREPLY=("${!seen[@]}")
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace
    compopt -o filenames
}

# Mount points of zerofs, or directories where there are none.
_zerofs_mounts() {
    local points

    points=$(awk '$3 == "fuse.zerofs" { print $2 }' /proc/self/mounts 2>/dev/null)
    if [[ -n $points ]]; then
        _zerofs_offer "$(printf '%b' "$points")"
    else
        _zerofs_paths -d
    fi
}

# Behind "=" and ",": values, and further options, of a list or of one option.  $1: the checkpoint.  What is offered continues the
# word that bash sees, which begins behind the last "=".
_zerofs_in_list() {
    local item=${cur##*,} after=${cur##*=} part values name

    part=$item
    if [[ $item == *=* ]]; then
        part=${item#*=}
        name=${item%%=*}
        name=${name#--}
        values=$("${words[0]}" --complete "${words[1]}" 2>/dev/null | awk -F'\t' -v n="$name=" '$1 == n || $1 == "--" n { print $3 }')
        case $name:$values in
        tag:*) values=$("${words[0]}" tags --json "$1" 2>/dev/null | sed -n 's/^{"tag":"\([^"\\]*\)".*/\1/p') ;;
        *'|'*) values=$(tr '|' '\n' <<<"$values" | grep -v '^[A-Z]*$') ;;
        *:DIR | *:FILE) values=$(compgen -f -- "$part") ;;
        *) values='' ;;
        esac
    else
        values=$(_zerofs_words "${words[1]}" | grep -v '^-')
    fi
    local IFS=$'\n' before=${after%"$part"}
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "$values" -- "$part")
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}

_zerofs() {
    local cur=${COMP_WORDS[COMP_CWORD]} words=("${COMP_WORDS[@]}") operands=() i
    local line=${COMP_LINE:0:${COMP_POINT:-0}}

    COMPREPLY=()
    # bash cuts words at "=", which is put together again.
    if [[ $line == *=* ]]; then
        read -ra words <<<"$line"
        [[ $line == *[[:blank:]] ]] && words+=('')
        COMP_CWORD=$((${#words[@]} - 1))
        cur=${words[COMP_CWORD]}
    fi
    if ((COMP_CWORD == 1)); then
        _zerofs_offer "$(_zerofs_words)" $'--help\n--version'
        [[ ${#COMPREPLY[@]} -gt 0 ]] || _zerofs_paths -d
        return
    elif [[ $cur == -* && $cur != *=* ]]; then
        _zerofs_offer "$(_zerofs_words "${words[1]}" | sed 's/^[^-]/--&/')"
        return
    fi
    # Operands in front of the cursor, without options and their values.
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${words[i]} in
        -o | -j) ((i++)) ;;
        -*) ;;
        *) operands+=("${words[i]}") ;;
        esac
    done
    if [[ ${words[COMP_CWORD - 1]} == -o || $cur == --*=* ]]; then
        _zerofs_in_list "${operands[0]}"
        return
    fi
    case ${words[1]}:${#operands[@]} in
    umount:*) _zerofs_mounts ;;
    index:* | tags:0 | newest:0 | cache:[!0]* | mount:[!0]*) _zerofs_paths -d ;;
    cache:0) _zerofs_offer $'ls\nclear' ;;
    *:0 | diff:1) _zerofs_paths -f ;;
    info:* | tags:* | newest:* | show:[!1]* | stat:[!1]* | map:[!1]*) ;;
    export:[!1]*)
        # From the second path on, the word may be the destination.
        _zerofs_names "${operands[0]}"
        local names=("${COMPREPLY[@]}")
        _zerofs_paths -d
        COMPREPLY+=("${names[@]}")
        ;;
    *) _zerofs_names "${operands[0]}" ;;
    esac
}
complete -F _zerofs zerofs

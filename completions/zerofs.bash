# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of zerofs(1) for bash.  Names inside a checkpoint come from `zerofs ls`.

_zerofs_commands='mount umount ls info cat export cache index'

# Options that every command takes as --NAME or -o NAME; those that need a value end in "=".
_zerofs_options='format= tag= degraded xdev links changed= lost= strip_prefix= rename= only= except= keep= shard_size= side= show= tp_rules= verbose connections= timeout= cache_mem= cache_dir= cache_size= local_cache= model_cache= cacert= limit='
_zerofs_mount_options='all_tags allow_other allow_root auto_unmount max_read= uid= gid= umask= fsname= subtype=
    entry_timeout= attr_timeout= max_threads= io= io_uring read_ahead= xattrs= nonempty debug'

# The flags of one command.
_zerofs_flags() {
    case $1 in
    mount) echo '-f --foreground -d' ;;
    umount) echo '-z --lazy' ;;
    ls) echo '-l -h --human-readable -a --all -R --recursive -0 --null --json' ;;
    info) echo '--json' ;;
    cat) echo '-f --force' ;;
    index) echo '--sha256 --stdout' ;;
    export) echo '-a --all -f --force -j --jobs= -q --quiet --sha256' ;;
    esac
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

# The operands in front of the cursor, without options and their values.
_zerofs_operands() {
    local i

    operands=()
    for ((i = 2; i < cword; i++)); do
        case ${words[i]} in
        -o | -j) ((i++)) ;;
        -*) ;;
        *) operands+=("${words[i]}") ;;
        esac
    done
}

_zerofs() {
    local cur words cword command options operands

    words=("${COMP_WORDS[@]}")
    cword=$COMP_CWORD
    cur=${words[cword]}
    COMPREPLY=()
    if ((cword == 1)); then
        _zerofs_offer "${_zerofs_commands// /$'\n'}" $'--help\n--version'
        [[ ${#COMPREPLY[@]} -gt 0 ]] || _zerofs_paths -d
        return
    fi
    command=${words[1]}
    options=$_zerofs_options
    [[ $command == mount ]] && options+=" $_zerofs_mount_options"
    # shellcheck disable=SC2046,SC2086 # lists of words
    if [[ ${words[cword - 1]} == -o ]]; then
        _zerofs_offer "$(printf '%s\n' $options)"
        return
    elif [[ $cur == -* ]]; then
        _zerofs_offer "$(printf '%s\n' $(_zerofs_flags "$command") --help)" "$(printf -- '--%s\n' $options)"
        return
    fi
    _zerofs_operands
    if ((${#operands[@]} == 0)) && [[ $command != umount && $command != cache && $command != index ]]; then
        _zerofs_paths -f
        return
    fi
    case $command in
    mount | umount | index) _zerofs_paths -d ;;
    cache)
        if ((${#operands[@]} == 0)); then
            _zerofs_offer ls clear
        else
            _zerofs_paths -d
        fi
        ;;
    ls | cat) _zerofs_names "${operands[0]}" ;;
    export)
        _zerofs_names "${operands[0]}"
        # From the second path on, the word may be the destination.
        if ((${#operands[@]} > 1)); then
            local -a names=("${COMPREPLY[@]}")
            _zerofs_paths -d
            COMPREPLY+=("${names[@]}")
        fi
        ;;
    esac
}
complete -F _zerofs zerofs

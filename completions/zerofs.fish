# SPDX-License-Identifier: Apache-2.0
# Completion of zerofs(1) for fish.  Commands and options come from `zerofs --complete`, names inside a checkpoint from `zerofs ls`.

# Operands in front of the cursor, without the command and options.
function __zerofs_operands
    set -l words (commandline -opc)
    set -l skip 0
    for word in $words[3..-1]
        if test $skip = 1
            set skip 0
        else if contains -- $word -o -j
            set skip 1
        else if not string match -q -- '-*' $word
            echo $word
        end
    end
end

function __zerofs_names
    set -l operands (__zerofs_operands)
    if test (count $operands) -gt 0
        zerofs ls -R $operands[1] 2>/dev/null
        printf '%s\n' npy/ as/ hf/ model.safetensors pytorch_model.bin
    end
end

# Saves of the run that is the first operand.
function __zerofs_tags
    set -l operands (__zerofs_operands)
    if test (count $operands) -gt 0
        zerofs tags --json $operands[1] 2>/dev/null | string replace -rf '^\{"tag":"([^"\\\\]*)".*' '$1'
    end
end

# NAME[=VALUE],... behind -o.
function __zerofs_list
    set -l token (commandline -ct)
    set -l before (string replace -rf '^(.*,).*' '$1' -- $token)
    set -l item (string replace -r '^.*,' '' -- $token)
    set -l words (commandline -opc)
    for option in (zerofs --complete $words[2] 2>/dev/null)
        set -l part (string split \t -- $option)
        if string match -q -- '-*' $part[1]
            continue
        else if not string match -q '*=*' -- $item
            printf '%s\t%s\n' "$before$part[1]" $part[2]
        else if test $part[1] = tag= && string match -q 'tag=*' -- $item
            printf '%s\n' "$before"tag=(__zerofs_tags)
        else if test $part[1] = (string replace -r '=.*' = -- $item)
            printf '%s\n' "$before$part[1]"(string split '|' -- $part[3] | string match -vr '^[A-Z]+$')
        end
    end
end

for row in (zerofs --complete 2>/dev/null)
    set -l command (string split \t -- $row)
    complete -c zerofs -n __fish_use_subcommand -a $command[1] -d $command[2]
    for option in (zerofs --complete $command[1])
        set -l part (string split \t -- $option)
        set -l name (string trim -c =- -- $part[1])
        set -l how -c zerofs -n "__fish_seen_subcommand_from $command[1]" -d $part[2]
        if test $name = tag
            set part[3] TAG
        end
        switch $part[3]
            case ''
            case '*|*'
                set -a how -x -a (string replace -a '|' ' ' -- $part[3] | string replace DIR '(__fish_complete_directories)')
            case TAG
                set -a how -x -a '(__zerofs_tags)'
            case LIST
                set -a how -x -a 'auto all raw npy safetensors bin hf as optim stored trained state extra'
            case DIR
                set -a how -x -a '(__fish_complete_directories)'
            case FILE
                set -a how -r -F
            case '*'
                set -a how -x
        end
        if string match -qr '^-.$' -- $part[1]
            complete $how -s $name
        else
            complete $how -l $name
        end
    end
end
complete -c zerofs -n 'not __fish_use_subcommand' -s o -x -a '(__zerofs_list)' -d 'Options, by comma'
complete -c zerofs -n __fish_use_subcommand -l help -d 'List the commands'
complete -c zerofs -n __fish_use_subcommand -l version -d 'Tell the version'
complete -c zerofs -n '__fish_seen_subcommand_from cache' -x -a 'ls clear'
complete -c zerofs -n '__fish_seen_subcommand_from ls cat show stat map; and test (count (__zerofs_operands)) -gt 0' -f -a '(__zerofs_names)'
complete -c zerofs -n '__fish_seen_subcommand_from export; and test (count (__zerofs_operands)) -gt 0' -a '(__zerofs_names)'
complete -c zerofs -n '__fish_seen_subcommand_from umount' -f -a '(awk \'$3 == "fuse.zerofs" { print $2 }\' /proc/self/mounts)'

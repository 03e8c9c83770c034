# SPDX-License-Identifier: Apache-2.0
# Completion of zerofs(1) for fish.  Names inside a checkpoint come from `zerofs ls`.

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
        zerofs ls $operands[1] 2>/dev/null
        printf '%s\n' npy/ as/ hf/ model.safetensors pytorch_model.bin
    end
end

function __zerofs_has_checkpoint
    test (count (__zerofs_operands)) -gt 0
end

complete -c zerofs -n __fish_use_subcommand -l help -d 'List the commands'
complete -c zerofs -n __fish_use_subcommand -l version -d 'Tell the version'
complete -c zerofs -n __fish_use_subcommand -a mount -d 'Show a checkpoint as a tree of files'
complete -c zerofs -n __fish_use_subcommand -a umount -d 'Take it off again'
complete -c zerofs -n __fish_use_subcommand -a ls -d 'List the files a mount would show'
complete -c zerofs -n __fish_use_subcommand -a info -d 'Say what a checkpoint is and what it holds'
complete -c zerofs -n __fish_use_subcommand -a cat -d 'Write files of the tree to standard output'
complete -c zerofs -n __fish_use_subcommand -a export -d 'Copy files of the tree to a directory'
complete -c zerofs -n __fish_use_subcommand -a cache -d 'List or empty a cache of models or remote blocks'
complete -c zerofs -n '__fish_seen_subcommand_from cache' -x -a 'ls clear'
complete -c zerofs -n __fish_use_subcommand -a index -d 'List a directory for web servers that do not'

set -l any '__fish_seen_subcommand_from mount ls info cat export'
complete -c zerofs -n $any -l format -x -d 'Read it as this format'
complete -c zerofs -n $any -l tag -x -d 'The save to show'
complete -c zerofs -n $any -l degraded -d 'Go on with damage'
complete -c zerofs -n $any -l lost -x -d 'What lost bytes are' -a 'eio omit nan'
complete -c zerofs -n $any -l xdev -d 'Enter other file systems'
complete -c zerofs -n $any -l links -d 'Follow links that leave the checkpoint'
complete -c zerofs -n $any -l changed -x -d 'When mode, owner or links of a shard changed' -a 'auto strict'
complete -c zerofs -n $any -l strip_prefix -x -d 'Take it off the front of names'
complete -c zerofs -n $any -l rename -x -d 'REGEX=TEXT, replace in names'
complete -c zerofs -n $any -l only -x -d 'Show tensors whose name matches'
complete -c zerofs -n $any -l except -x -d 'Leave out tensors whose name matches'
complete -c zerofs -n $any -l keep -x -d 'Tensors that as/ leaves in their own type'
complete -c zerofs -n $any -l verbose -d 'Print every request to an address'
complete -c zerofs -n $any -l connections -x -d 'Most connections to one host'
complete -c zerofs -n $any -l timeout -x -d 'When a read of an address fails'
complete -c zerofs -n $any -l cache_mem -x -d 'Blocks of addresses kept in memory'
complete -c zerofs -n $any -l cache_dir -x -a '(__fish_complete_directories)' -d 'Blocks of addresses kept on disk'
complete -c zerofs -n $any -l cache_size -x -d 'Most bytes of cache_dir'
complete -c zerofs -n $any -l local_cache -x -a '(__fish_complete_directories)' -d 'Files read in place of those behind the address'
complete -c zerofs -n $any -l model_cache -x -a 'auto off (__fish_complete_directories)' -d 'Models kept for the next mount'
complete -c zerofs -n $any -l cacert -r -d 'Authorities that https is verified with'
complete -c zerofs -n $any -l shard_size -x -d 'Cut hf/ shards at this size'
complete -c zerofs -n $any -l side -r -a '(__fish_complete_directories)' -d 'Directory of side files'
complete -c zerofs -n $any -l tp_rules -r -F -d 'File that says how tensor-parallel ranks are joined'
complete -c zerofs -n $any -l show -x -d 'What directories list' -a 'auto all raw npy safetensors bin hf as optim stored trained state extra'
complete -c zerofs -n $any -l limit -x -d 'NAME=N, change a limit'
complete -c zerofs -n $any -l help -d 'Tell the options'

set -l mount '__fish_seen_subcommand_from mount'
complete -c zerofs -n $mount -l all_tags -d 'One directory per save'
complete -c zerofs -n $mount -l allow_other -d 'Let other users in'
complete -c zerofs -n $mount -l allow_root -d 'Let root in'
complete -c zerofs -n $mount -l auto_unmount -d 'Always on: unmount when the daemon dies'
complete -c zerofs -n $mount -l max_read -x -d 'Largest read request'
complete -c zerofs -n $mount -l uid -x -d 'Owner of all files'
complete -c zerofs -n $mount -l gid -x -d 'Group of all files'
complete -c zerofs -n $mount -l umask -x -d 'Bits taken from the modes'
complete -c zerofs -n $mount -l fsname -x -d 'Source in /proc/mounts'
complete -c zerofs -n $mount -l subtype -x -d 'Type behind "fuse."'
complete -c zerofs -n $mount -l entry_timeout -x -d 'Seconds names are cached'
complete -c zerofs -n $mount -l attr_timeout -x -d 'Seconds attributes are cached'
complete -c zerofs -n $mount -l max_threads -x -d 'Most requests served at once'
complete -c zerofs -n $mount -l io -x -d 'Large files through the page cache or past it' -a 'auto cached direct'
complete -c zerofs -n $mount -l io_uring -d 'Take requests over io_uring'
complete -c zerofs -n $mount -l read_ahead -x -d 'Kernel read-ahead'
complete -c zerofs -n $mount -l xattrs -x -d 'Extended attributes' -a 'auto on off'
complete -c zerofs -n $mount -l nonempty -d 'Mount over a directory that holds files'
complete -c zerofs -n $mount -l debug -d 'Print every request'
complete -c zerofs -n $mount -s f -l foreground -d 'Stay in the foreground'
complete -c zerofs -n $mount -s d -d 'Stay in the foreground and print every request'

complete -c zerofs -n '__fish_seen_subcommand_from index' -l sha256 -d 'With the SHA-256 of every file'
complete -c zerofs -n '__fish_seen_subcommand_from index' -l stdout -d 'To standard output'
complete -c zerofs -n '__fish_seen_subcommand_from umount' -s z -l lazy -d 'Detach now'

set -l ls '__fish_seen_subcommand_from ls'
complete -c zerofs -n $ls -s l -d 'With size, type and shape'
complete -c zerofs -n $ls -s h -l human-readable -d 'Readable sizes'
complete -c zerofs -n $ls -s R -l recursive -d 'All files below a directory'
complete -c zerofs -n $ls -s a -l all -d 'Presentations too'
complete -c zerofs -n $ls -s 0 -l null -d 'End names with NUL'
complete -c zerofs -n $ls -l json -d 'One JSON object a line'

complete -c zerofs -n '__fish_seen_subcommand_from info' -l json -d 'As one JSON object'

complete -c zerofs -n '__fish_seen_subcommand_from cat' -s f -l force -d 'Even to a terminal'

set -l export '__fish_seen_subcommand_from export'
complete -c zerofs -n $export -s a -l all -d 'Presentations too'
complete -c zerofs -n $export -s f -l force -d 'Replace files that differ'
complete -c zerofs -n $export -s j -l jobs -x -d 'Copies at once'
complete -c zerofs -n $export -s q -l quiet -d 'No progress line'
complete -c zerofs -n $export -l sha256 -d 'Write SHA256SUMS'

complete -c zerofs -n '__fish_seen_subcommand_from ls cat; and __zerofs_has_checkpoint' -f -a '(__zerofs_names)'
complete -c zerofs -n '__fish_seen_subcommand_from export; and __zerofs_has_checkpoint' -a '(__zerofs_names)'

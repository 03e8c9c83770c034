/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the command that the first word names, and runs it. */
#include <fcntl.h>
#include <libgen.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <config.h>

#include <zf/base/nearest.h>

#include "helper.h"
#include "page.h"
#include "parse.h"
#include "remote.h"

/* The column that what a command does begins in. */
#define MAIN_SUMMARY_AT 11

static int main_usage(FILE *to)
{
    const struct page p = page_of(to, COLOR_NEVER);

    (void)fputs("Usage: zerofs COMMAND ...\n"
                "       zerofs CKPT MOUNTPOINT [-o OPTIONS]     (the same as zerofs mount)\n"
                "Show a sharded training checkpoint as plain files, without converting it.\n\n",
                to);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        (void)fprintf(to, "  %-8s ", cmd_table[i].name);
        page_hang(&p, MAIN_SUMMARY_AT, cmd_table[i].summary);
    }
    (void)fputs("\n`zerofs COMMAND --help' has its options, zerofs(1) and zerofs(5) all the rest.\n"
                "Example: zerofs mount run7/global_step1000 /mnt/x && ls -l /mnt/x\n"
                "Report bugs to <" PACKAGE_BUGREPORT ">.\n",
                to);
    return to == stdout ? cmd_finish(EXIT_OK) : EXIT_USAGE;
}

/* A descriptor opened later must never become 0, 1 or 2, or a shard would be written to.  What was
 * closed is opened the wrong way round, so that using it fails as it would have. */
static bool main_reserve_standard_fds(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return false;
    return true;
}

/* Shells and services give 1,024 and allow more for the asking; a save of a thousand ranks has two
 * thousand shards, and each that is closed for want of descriptors is opened again at a later read. */
static void main_raise_descriptors(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r); /* without it things only take longer */
    }
}

/* Index of the command: the first word that is one, behind nothing but options and their values;
 * 0 = nowhere. */
static int main_find_command(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (cmd_find(argv[i]))
            return i;
        if (argv[i][0] != '-' && argv[i - (i > 1)][0] != '-')
            return 0;
    }
    return 0;
}

/* Moves argv[at] to argv[1]; options in front of it go behind it. */
static void main_put_first(char **argv, int at)
{
    char *name = argv[at];

    memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof *argv);
    argv[1] = name;
}

static void main_nearest_command(struct zf_nearest *near)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        zf_nearest_offer(near, cmd_table[i].name);
}

/* Neither a path nor an address: a command with a slip in it, rather than a checkpoint to be mounted. */
static bool main_is_misspelled(const char *word)
{
    return word[0] != '-' && !strpbrk(word, "/:") && access(word, F_OK) != 0;
}

static int main_no_command(const char *word)
{
    zf_auto(nearest) struct zf_nearest near = {.want = word};
    char hint[256];

    main_nearest_command(&near);
    (void)fprintf(stderr, "zerofs: \"%s\" is not a command%s\nTry `zerofs --help'.\n", word,
                  near.n ? zf_nearest_text(&near, hint, sizeof hint) : ".");
    return EXIT_USAGE;
}

/* Large blocks go back to the system when they are freed, also after others were; the C library
 * would learn from the first to keep them. */
static void main_keep_no_large_blocks(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, 256 << 10);
#endif
}

/* libzip turns the time of every member into a local one, and without TZ the C library looks at /etc/localtime for each,
 * under a lock.  This is the zone it would have taken. */
static void main_set_zone(void)
{
    (void)setenv("TZ", ":/etc/localtime", 0); /* without it things only take longer */
}

/* argv[0] is the command's name. */
static int main_command(const struct cmd *c, int argc, char **argv)
{
    zf_auto(opts) struct opts o = opts_default();
    int at, code = opts_parse(&o, c, argc, argv, &at);

    return code >= 0 ? code : c->run(&o, argc - at, argv + at);
}

/* Words for shells: "WORD\tHELP\tVALUES" a line, of a command, or all commands. */
static int main_complete(const struct cmd *c)
{
    for (size_t i = 0; !c && i < N_COMMANDS; i++)
        (void)printf("%s\t%s\t\n", cmd_table[i].name, cmd_table[i].summary);
    if (c)
        opts_complete(stdout, c);
    return cmd_finish(EXIT_OK);
}

static int main_run(int argc, char **argv)
{
    static const char mount_prefix[] = "mount.";
    const char *self = argc > 0 ? basename(argv[0]) : "zerofs";

    main_set_zone();
    if (!main_reserve_standard_fds())
        return EXIT_FAILURE;
    main_raise_descriptors();
    main_keep_no_large_blocks();
    if (strncmp(self, mount_prefix, sizeof mount_prefix - 1) == 0)
        return helper_run(argc, argv);
    if (argc < 2)
        return main_usage(stderr);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return main_usage(stdout);
    if (strcmp(argv[1], "--complete") == 0)
        return main_complete(argc > 2 ? cmd_find(argv[2]) : NULL);
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        return cmd_version();
    int at = main_find_command(argc, argv);
    if (at > 0) {
        main_put_first(argv, at);
        return main_command(cmd_find(argv[1]), argc - 1, argv + 1);
    }
    /* Run by mount.fuse3 for fstab's "fuse.zerofs": zerofs SRC MNT -o … */
    if (argc > 2 && !main_is_misspelled(argv[1]))
        return helper_bare(argc, argv);
    return main_no_command(argv[1]);
}

int main(int argc, char **argv)
{
    /* A write past `ulimit -f` is an error like a full disk. */
    (void)signal(SIGXFSZ, SIG_IGN);
    int code = main_run(argc, argv);

    remote_end();
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the command named by the first word, and runs it. */
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

/* The column in which the summary of a command begins. */
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

/* Makes sure that no file opened later gets descriptor 0, 1 or 2: messages would be written to it.  Closed
 * ones are opened for the wrong direction, so that using them fails as before. */
static bool main_reserve_standard_fds(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return false;
    return true;
}

/* Raises the limit of open files: the default is 1,024 but a process may raise it.  A save of a thousand
 * ranks has two thousand shards, and one closed for lack of descriptors must be opened again later. */
static void main_raise_descriptors(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r); /* if it fails, reads only take longer */
    }
}

/* The index in argv of the command's name, which only options and their values may precede; 0: there
 * is none. */
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

/* Moves argv[at] to argv[1], and the options before it behind it. */
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

/* True if the word is neither a path nor an address: a misspelled command, not a checkpoint to mount. */
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

/* Makes free(3) always return large blocks to the system.  By default glibc raises its threshold after the
 * first such block and then keeps them. */
static void main_keep_no_large_blocks(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, 256 << 10);
#endif
}

/* Sets TZ to the default zone: libzip converts every member's time to local time, and without TZ the C library checks
 * /etc/localtime each time, under a lock. */
static void main_set_zone(void)
{
    (void)setenv("TZ", ":/etc/localtime", 0); /* if it fails, opening only takes longer */
}

/* Runs a command; argv[0] is its name. */
static int main_command(const struct cmd *c, int argc, char **argv)
{
    zf_auto(opts) struct opts o = opts_default();
    int at, code = opts_parse(&o, c, argc, argv, &at);

    return code >= 0 ? code : c->run(&o, argc - at, argv + at);
}

/* Prints completions for shells, "WORD\tHELP\tVALUES" lines: a command's options, or all commands. */
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
    /* Exceeding `ulimit -f` is then an error of write(2), like a full disk. */
    (void)signal(SIGXFSZ, SIG_IGN);
    int code = main_run(argc, argv);

    remote_end();
    return code;
}

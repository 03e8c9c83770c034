/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the command that the first word names, and what all commands share: help, usage errors,
 * exit codes. */
#include "cmd.h"

#include <fcntl.h>
#include <libgen.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <config.h>

#include <zf/base/nearest.h>
#include <zf/codec/version.h>
#include <zf/fs.h>
#include "options.h"
#include "remote.h"

static const struct cmd *const table[] = {
#define CMD(name) &cmd_##name,
#include "table.def"
#undef CMD
};

/* Row i of the command table, or NULL past the end. */
static const struct cmd *main_row(size_t i)
{
    return i < sizeof table / sizeof table[0] ? table[i] : NULL;
}

const struct cmd *cmd_find(const char *name)
{
    for (size_t i = 0; main_row(i); i++) {
        if (strcmp(table[i]->name, name) == 0) {
            return table[i];
        }
    }
    return NULL;
}

int cmd_fail(const struct zf_err *err)
{
    char text[1024];

    (void)fprintf(stderr, "zerofs: %s\n", zf_err_text(err, text, sizeof text));
    return zf_err_exit(err);
}

int cmd_usage(const struct cmd *self, const char *fmt, ...)
{
    va_list ap;

    (void)fprintf(stderr, "zerofs %s: ", self->name);
    va_start(ap, fmt);
    (void)vfprintf(stderr, fmt, ap);
    va_end(ap);
    (void)fprintf(stderr, "\nTry `zerofs %s --help'.\n", self->name);
    return EXIT_USAGE;
}

int cmd_help(const struct cmd *self)
{
    (void)printf("Usage: zerofs %s %s\n%s\n\n%s", self->name, self->args, self->summary,
                 self->flags);
    opts_help(stdout, self);
    return cmd_finish(EXIT_OK);
}

int cmd_finish(int code)
{
    struct zf_err err;

    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return code;
    }
    (void)zf_fail_sys(&err, "write to standard output");
    int io = cmd_fail(&err);
    return code > io ? code : io;
}

static int main_usage(FILE *to)
{
    (void)fputs("Usage: zerofs COMMAND ...\n"
                "       zerofs CKPT MOUNTPOINT [-o OPTIONS]     (the same as zerofs mount)\n"
                "Show a sharded training checkpoint as plain files, without converting it.\n\n",
                to);
    for (size_t i = 0; main_row(i); i++) {
        (void)fprintf(to, "  %-8s %s\n", table[i]->name, table[i]->summary);
    }
    (void)fputs(
        "\n`zerofs COMMAND --help' tells a command's options, zerofs(1) and zerofs(5) the rest.\n"
        "Example: zerofs mount run7/global_step1000 /mnt/x && ls -l /mnt/x\n"
        "Report bugs to <" PACKAGE_BUGREPORT ">.\n",
        to);
    return to == stdout ? cmd_finish(EXIT_OK) : EXIT_USAGE;
}

int cmd_version(void)
{
    zf_auto(out) struct zf_out o = {0};

    zf_version_add(&o, "libfuse", zf_fs_version(), NULL);
    zf_codec_versions(&o);
    zf_base_versions(&o);
    zf_remote_versions(&o);
    (void)printf("zerofs " PACKAGE_VERSION "\nLicense Apache-2.0. There is no warranty.\n%s",
                 zf_out_text(&o));
    return cmd_finish(EXIT_OK);
}

/* A descriptor opened later must never become 0, 1 or 2, or a shard would be written to.  What was
 * closed is opened the wrong way round, so that using it fails as it would have. */
static bool main_reserve_standard_fds(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) {
            return false;
        }
    }
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
        if (cmd_find(argv[i])) {
            return i;
        }
        if (argv[i][0] != '-' && argv[i - (i > 1)][0] != '-') {
            return 0;
        }
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
    for (size_t i = 0; main_row(i); i++) {
        zf_nearest_offer(near, table[i]->name);
    }
}

/* A command with a slip in it, rather than a checkpoint to be mounted? */
static bool main_is_misspelled(const char *word)
{
    zf_auto(nearest) struct zf_nearest near = {.want = word};

    main_nearest_command(&near);
    return word[0] != '-' && near.n && access(word, F_OK) != 0;
}

static int main_no_command(const char *word)
{
    zf_auto(nearest) struct zf_nearest near = {.want = word};
    char hint[256];

    main_nearest_command(&near);
    (void)fprintf(stderr, "zerofs: \"%s\" is no command%s\nTry `zerofs --help'.\n", word,
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
static void main_settle_zone(void)
{
    (void)setenv("TZ", ":/etc/localtime", 0); /* without it things only take longer */
}

static int main_run(int argc, char **argv)
{
    static const char mount_prefix[] = "mount.";
    const char *self = argc > 0 ? basename(argv[0]) : "zerofs";

    main_settle_zone();
    if (!main_reserve_standard_fds()) {
        return EXIT_FAILURE;
    }
    main_raise_descriptors();
    main_keep_no_large_blocks();
    if (strncmp(self, mount_prefix, sizeof mount_prefix - 1) == 0) {
        return cmd_mount_helper(argc, argv);
    }
    if (argc < 2) {
        return main_usage(stderr);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        return main_usage(stdout);
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        return cmd_version();
    }
    int at = main_find_command(argc, argv);
    if (at > 0) {
        const struct cmd *cmd = cmd_find(argv[at]);

        main_put_first(argv, at);
        return cmd->run(cmd, argc - 1, argv + 1);
    }
    /* Run by mount.fuse3 for fstab's "fuse.zerofs": zerofs SRC MNT -o … */
    if (argc > 2 && !main_is_misspelled(argv[1])) {
        return cmd_mount_bare(argc, argv);
    }
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

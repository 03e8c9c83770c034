/* SPDX-License-Identifier: Apache-2.0 */
/* mount.zerofs and mount.fuse.zerofs, as mount(8) runs them: SRC MNT [-sfnv] [-N ns] [-t type]
 * [-o list]. */
#include <getopt.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/auto.h>

#include "mount.h"
#include "options.h"

/* mount(8), "EXIT STATUS". */
enum { MOUNT_OK = 0, MOUNT_USAGE = 1, MOUNT_SYSTEM = 2, MOUNT_FAILED = 32 };

/* The comma behind a word, or NULL; "\\," belongs to the word. */
static char *helper_word_end(char *word)
{
    char *p = strchr(word, ',');

    while (p && p > word && p[-1] == '\\') {
        p = strchr(p + 1, ',');
    }
    return p;
}

/* mount(8) says "rw" on its own when nobody said "ro": that is no wish to write. */
static void helper_drop_rw(char *list)
{
    char *to = list;

    for (char *word = list, *end; word; word = end) {
        end = helper_word_end(word);
        size_t n = end ? (size_t)(end++ - word) : strlen(word);
        if (n == 2 && memcmp(word, "rw", n) == 0) {
            continue;
        }
        if (to != list) {
            *to++ = ',';
        }
        memmove(to, word, n);
        to += n;
    }
    *to = '\0';
}

int cmd_mount_bare(int argc, char **argv)
{
    const struct cmd *mount = cmd_find("mount");

    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "-o") == 0) {
            helper_drop_rw(argv[++i]);
        }
    }
    return mount->run(mount, argc, argv);
}

static int helper_help(const char *self)
{
    (void)printf("Usage: %s CKPT MOUNTPOINT [-fnsv] [-N NAMESPACE] [-t TYPE] [-o OPTIONS]\n\n"
                 "What mount(8) runs to show a checkpoint as a read-only tree of files.\n\n"
                 "  -f                     pretend: mount nothing\n"
                 "  -n -s -v -N -t         accepted and ignored\n"
                 "  -h, --help             this text\n"
                 "  -V, --version          the version\n\n",
                 self);
    opts_help(stdout, cmd_find("mount"));
    return cmd_finish(MOUNT_OK);
}

static int helper_mount_code(int code)
{
    return code == EXIT_OK ? MOUNT_OK : code == EXIT_USAGE ? MOUNT_USAGE : MOUNT_FAILED;
}

int cmd_mount_helper(int argc, char **argv)
{
    const struct cmd *mount = cmd_find("mount");
    /* The same words again, so that one parser knows the options: each -o may become two. */
    zf_auto(mem) char **words = calloc(2 * (size_t)argc + 4, sizeof *words);
    static const struct option longs[] = {
        {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {0}};
    bool fake = false;
    int c, n = 0;

    if (!words) {
        return MOUNT_SYSTEM;
    }
    words[n++] = (char *)mount->name;
    while ((c = getopt_long(argc, argv, "sfnvN:t:o:hV", longs, NULL)) != -1) {
        if (c == 'h') {
            return helper_help(basename(argv[0]));
        } else if (c == 'V') {
            return cmd_version();
        } else if (c == 'f') {
            fake = true;
        } else if (c == 'o') {
            helper_drop_rw(optarg);
            words[n++] = (char *)"-o";
            words[n++] = optarg;
        } else if (c == '?') {
            return MOUNT_USAGE;
        }
    }
    if (argc - optind != 2) {
        (void)fprintf(stderr, "%s: needs a checkpoint and a mount point\n", argv[0]);
        return MOUNT_USAGE;
    }
    words[n++] = (char *)"--";
    words[n++] = argv[optind];
    words[n++] = argv[optind + 1];
    if (fake) {
        return MOUNT_OK;
    }
    bool already;
    int code = mount_command(mount, n, words, &already);
    return already ? MOUNT_FAILED : helper_mount_code(code);
}

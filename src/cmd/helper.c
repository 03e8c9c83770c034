/* SPDX-License-Identifier: Apache-2.0 */
#include "helper.h"

#include <getopt.h>
#include <libgen.h>
#include <stdio.h>

#include "mount.h"
#include "parse.h"

/* mount(8), "EXIT STATUS". */
enum { MOUNT_OK = 0, MOUNT_USAGE = 1, MOUNT_SYSTEM = 2, MOUNT_FAILED = 32 };

static int helper_help(const char *self)
{
    (void)printf("Usage: %s CKPT MOUNTPOINT [-fnsv] [-N NAMESPACE] [-t TYPE] [-o OPTIONS]\n\n"
                 "What mount(8) runs to show a checkpoint as a read-only tree of files.\n\n"
                 "  -f                     pretend: mount nothing\n"
                 "  -n -s -v -N -t         accepted and ignored\n"
                 "  -h, --help             this text\n"
                 "  -V, --version          the version\n\n",
                 self);
    opts_help(stdout, &cmd_table[CMD_MOUNT]);
    return cmd_finish(MOUNT_OK);
}

static int helper_mount_code(int code)
{
    return code == EXIT_OK ? MOUNT_OK : code == EXIT_USAGE ? MOUNT_USAGE : MOUNT_FAILED;
}

int helper_bare(int argc, char **argv)
{
    zf_auto(opts) struct opts o = opts_default();
    bool already;
    int at, code;

    o.by_mount8 = true;
    code = opts_parse(&o, &cmd_table[CMD_MOUNT], argc, argv, &at);
    return code >= 0 ? code : mount_at(&o, argv[at], argv[at + 1], &already);
}

static int helper_mount(struct opts *o, char **word)
{
    struct zf_err err;
    bool already;

    if (!opts_finish(o, &err))
        return helper_mount_code(cmd_usage(&cmd_table[CMD_MOUNT], "%s", err.msg));
    int code = mount_at(o, word[0], word[1], &already);
    return already ? MOUNT_FAILED : helper_mount_code(code);
}

int helper_run(int argc, char **argv)
{
    zf_auto(opts) struct opts o = opts_default();
    static const struct option longs[] = {
        {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {0}};
    const struct cmd *mount = &cmd_table[CMD_MOUNT];
    bool fake = false;
    struct zf_err err;
    int c;

    o.by_mount8 = true;
    while ((c = getopt_long(argc, argv, "sfnvN:t:o:hV", longs, NULL)) != -1)
        if (c == 'h')
            return helper_help(basename(argv[0]));
        else if (c == 'V')
            return cmd_version();
        else if (c == 'f')
            fake = true;
        else if (c == 'o' && !opts_list(&o, mount, optarg, &err))
            return helper_mount_code(cmd_usage(mount, "%s", err.msg));
        else if (c == '?')
            return MOUNT_USAGE;
    if (argc - optind != 2) {
        (void)fprintf(stderr, "%s: needs a checkpoint and a mount point\n", argv[0]);
        return MOUNT_USAGE;
    }
    return fake ? MOUNT_OK : helper_mount(&o, argv + optind);
}

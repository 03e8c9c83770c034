/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <config.h>

#include <zf/base/out.h>
#include <zf/base/version.h>
#include <zf/codec/version.h>
#include <zf/fs.h>
#include <zf/remote.h>

#define ANY INT_MAX

const struct cmd cmd_table[N_COMMANDS] = {
#define CMD(id, function, name, least, most, needs, args, summary)                                 \
    {name, least, most, needs, args, summary, cmd_##function},
#include "table.def"
#undef CMD
};

const struct cmd *cmd_find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(cmd_table[i].name, name) == 0)
            return &cmd_table[i];
    return NULL;
}

int cmd_fail(const struct zf_err *err)
{
    char text[1024];

    (void)fprintf(stderr, "zerofs: %s\n", zf_err_text(err, text, sizeof text));
    return zf_err_exit(err);
}

int cmd_negative(const struct zf_err *err)
{
    const int code = cmd_fail(err);

    return err->code == ZF_E_NOENT ? EXIT_NEGATIVE : code;
}

int cmd_usage(const struct cmd *c, const char *fmt, ...)
{
    va_list ap;

    (void)fprintf(stderr, "zerofs %s: ", c->name);
    va_start(ap, fmt);
    (void)vfprintf(stderr, fmt, ap);
    va_end(ap);
    (void)fprintf(stderr, "\nTry `zerofs %s --help'.\n", c->name);
    return EXIT_USAGE;
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

int cmd_finish(int code)
{
    struct zf_err err;

    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    (void)zf_fail_sys(&err, "write to standard output");
    int io = cmd_fail(&err);
    return code > io ? code : io;
}

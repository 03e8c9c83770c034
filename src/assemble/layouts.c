/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/layouts.h>

#include <stdio.h>

/* The first row whose files are found; *where: in which file or directory.  NULL: none. */
static const struct zf_layout *layouts_find(const struct zf_layout *row, const struct zf_save *save,
                                            const struct zf_open_opts *o, const char **where)
{
    while (row->find && !(*where = row->find(save, o)))
        row++;
    return row->find ? row : NULL;
}

void zf_layouts_probe(const struct zf_layout *rows, const struct zf_save *save,
                      const struct zf_open_opts *o, struct zf_probe *out)
{
    const char *where;
    const struct zf_layout *row = layouts_find(rows, save, o, &where);

    *out = (struct zf_probe){.fit = ZF_FIT_NO};
    if (row) {
        const char *slash = *where && row->file ? "/" : "";

        out->fit = row->fit == ZF_FIT_NO ? ZF_FIT_PROOF : row->fit;
        out->unfinished = row->unfinished;
        (void)snprintf(out->why, sizeof out->why, "%s %.80s%s%s", row->what, where, slash,
                       row->file ? row->file : "");
    }
}

bool zf_layouts_open(const struct zf_layout *rows, const struct zf_save *save,
                     const struct zf_open_opts *o, void *ctx, struct zf_err *err)
{
    const char *where;
    const struct zf_layout *row = layouts_find(rows, save, o, &where);

    return row ? row->open(ctx, where, err)
               : zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE, "this save has no known layout");
}

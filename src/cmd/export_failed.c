/* SPDX-License-Identifier: Apache-2.0 */
/* The files that an export could not read, reported together at its end. */
#include "export.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"

/* Lines that are printed; a missing shard may affect thousands of files. */
#define MOST_LINES 100

void export_failed_add(struct export_failed *f, uint32_t i, const struct zf_err *err)
{
    char text[1024];
    struct zf_err memory;

    if (!zf_vec_room(&f->of, 1, &memory)) {
        f->code = zf_err_exit(err);
        return;
    }
    f->of.at[f->of.n++] =
        (struct export_failure){.file = i, .why = strdup(zf_err_text(err, text, sizeof text))};
    f->code = f->code ? f->code : zf_err_exit(err);
}

static int failed_by_file(const void *a, const void *b)
{
    const struct export_failure *x = a, *y = b;

    return (x->file > y->file) - (x->file < y->file);
}

void export_failed_print(struct export_failed *f, const struct zf_export_plan *p)
{
    uint32_t failed = 0, lines = 0;

    if (f->of.n == 0)
        return;
    qsort(f->of.at, f->of.n, sizeof *f->of.at, failed_by_file);
    for (size_t k = 0; k < f->of.n; k++)
        for (uint32_t i = f->of.at[k].file; i != UINT32_MAX; i = p->file[i].follows)
            failed++;
    (void)fprintf(stderr, "zerofs: %" PRIu32 " of %" PRIu32 " files could not be exported:\n",
                  failed, p->n);
    for (size_t k = 0; k < f->of.n && lines < MOST_LINES; k++) {
        for (uint32_t i = f->of.at[k].file; i != UINT32_MAX && lines < MOST_LINES;
             i = p->file[i].follows) {
            lines++;
            (void)fputs("  ", stderr);
            print_name(stderr, p->file[i].from);
            (void)fprintf(stderr, ": %s\n", f->of.at[k].why ? f->of.at[k].why : "cannot be read");
        }
    }
    if (failed > lines)
        (void)fprintf(stderr, "  and %" PRIu32 " more\n", failed - lines);
}

bool export_failed_for_good(const struct export_failed *f, const struct zf_export_plan *p)
{
    bool lost = true;

    for (size_t k = 0; k < f->of.n; k++)
        lost = lost && p->file[f->of.at[k].file].st.lost;
    return lost;
}

void export_failed_fini(struct export_failed *f)
{
    for (size_t k = 0; k < f->of.n; k++)
        free(f->of.at[k].why);
    zf_vec_fini(&f->of);
    *f = (struct export_failed){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Reports findings and counts them by file and tensor. */
#include "checks.h"

#include <stdarg.h>
#include <stdio.h>

#include <zf/base/table.h>

struct verify_file {
    UT_hash_handle hh; /* by name */
    bool bad;
};

enum zf_finding_weight verify_weight(const struct zf_err *why)
{
    return why->code == ZF_E_FORMAT || why->code == ZF_E_UNSUPPORTED || why->code == ZF_E_LIMIT
               ? ZF_WEIGHT_DAMAGE
               : ZF_WEIGHT_UNREAD;
}

/* The file's name relative to the store.  Findings give it with or without the store's name; a file must count once. */
static const char *verify_inner_name(const struct verify *v, const char *file)
{
    const char *at = zf_store_name(v->c->store);
    const size_t n = strlen(at);

    return strncmp(file, at, n) == 0 && file[n] == '/' ? file + n + 1 : file;
}

static struct verify_file *verify_file(struct verify *v, const char *file, struct zf_err *err)
{
    return zf_table_make_str(v->files, verify_inner_name(v, file), err);
}

bool verify_count_file(struct verify *v, const char *file, struct zf_err *err)
{
    const bool ok = verify_file(v, file, err) != NULL;

    v->sum->files = HASH_COUNT(v->files);
    return ok;
}

static bool verify_count(struct verify *v, const struct verify_about *about, struct zf_err *err)
{
    v->sum->count[about->weight]++;
    if (about->weight < ZF_WEIGHT_DAMAGE)
        return true;
    for (size_t i = 0; i < v->hit.n; i++) {
        v->sum->bad_tensors += !v->bad[v->hit.at[i]];
        v->bad[v->hit.at[i]] = true;
    }
    struct verify_file *file = about->file[0] ? verify_file(v, about->file, err) : NULL;
    if (file) {
        v->sum->bad_files += !file->bad;
        file->bad = true;
    }
    v->sum->files = HASH_COUNT(v->files);
    return file || !about->file[0];
}

bool verify_found(struct verify *v, const struct verify_about *about, struct zf_err *err,
                  const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const struct zf_finding f = {.kind = about->kind,
                                 .weight = about->weight,
                                 .file = about->file,
                                 .first = about->first,
                                 .end = about->end,
                                 .tensor = v->hit.at,
                                 .n_tensors = v->hit.n,
                                 .text = text};

    v->o->found(v->o->ctx, &f);
    const bool ok = verify_count(v, about, err);
    v->hit.n = 0;
    return ok;
}

bool verify_found_at(struct verify *v, const struct verify_about *about,
                     const struct zf_source *file, const char *text, struct zf_err *err)
{
    v->hit.n = 0;
    return places_tensors(&v->places, file, about->first, about->end, &v->hit, err) &&
           verify_found(v, about, err, "%s", text);
}

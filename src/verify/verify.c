/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/verify/verify.h>

#include <stdarg.h>
#include <stdio.h>

#include <zf/base/table.h>

#include "sums.h"
#include "verify_inside.h"

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

/* Some findings name a file from the directory that was pointed at, others from the checkpoint's: it counts once. */
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
    if (about->weight < ZF_WEIGHT_DAMAGE) {
        return true;
    }
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

/* A file that was replaced after it was read left no trace in the reads. */
static bool verify_unchanged(struct verify *v, struct zf_err *err)
{
    struct zf_err why;

    if (v->sum->count[ZF_WEIGHT_UNREAD] > 0 || zf_store_unchanged(v->c->store, &why)) {
        return true;
    }
    const struct verify_about about = {
        .kind = ZF_FOUND_READ, .weight = ZF_WEIGHT_UNREAD, .file = why.path};
    return verify_found(v, &about, err, "%s", why.msg);
}

static bool verify_all(struct verify *v, struct zf_err *err)
{
    if (!places_init(&v->places, v->o->tensor, v->o->n, err) || !verify_structure(v, err)) {
        return false;
    }
    for (size_t i = 0; i < v->places.file.n; i++) {
        if (!verify_count_file(v, v->places.file.at[i].src->name, err)) {
            return false;
        }
    }
    if (v->o->quick) {
        return true;
    }
    struct sums sums;
    v->sums = &sums;
    const bool ok = sums_init(&sums, v, err) &&
                    (v->o->part || twins_init(&v->twins, v->c->copy, v->c->n_copies, err)) &&
                    verify_pass(v, err) && verify_copies(v, err) && verify_values(v, err) &&
                    sums_report(&sums, v, err) && verify_unchanged(v, err) &&
                    verify_coverage(v, err) && verify_code(v, err);
    sums_fini(&sums);
    return ok;
}

bool zf_verify(const struct zf_checkpoint *c, const struct zf_verify_opts *o,
               struct zf_verify_sum *out, struct zf_err *err)
{
    struct verify v = {.c = c, .o = o, .sum = out};

    *out = (struct zf_verify_sum){.tensors = o->n};
    v.value = calloc(o->n ? o->n : 1, sizeof *v.value);
    v.bad = calloc(o->n ? o->n : 1, sizeof *v.bad);
    const bool ok = v.value && v.bad ? verify_all(&v, err) : zf_fail_sys(err, "verify");
    places_fini(&v.places);
    twins_fini(&v.twins);
    zf_vec_fini(&v.hit);
    zf_table_free(v.files);
    free(v.value);
    free(v.bad);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs stat: minimum, maximum, mean and standard deviation of tensors, and their numbers of zeros, NaNs and
 * infinities. Tensors are cut into stretches of a fixed number of elements; threads read and reduce them, and the
 * results are joined in order. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/num.h>
#include <zf/base/out.h>
#include <zf/base/table.h>
#include <zf/inspect/number.h>
#include <zf/inspect/stats.h>
#include <zf/view.h>

#include "open.h"
#include "page.h"
#include "print.h"
#include "progress.h"
#include "stretch.h"
#include "tensors.h"

/* Elements per stretch, a multiple of ZF_STATS_BLOCK. */
#define STRETCH (STRETCH_BYTES / sizeof(float) / ZF_STATS_BLOCK * ZF_STATS_BLOCK)

struct stat_tensor {
    char *path; /* owned */
    uint64_t ino;
    enum zf_dtype dtype;
    uint64_t n;  /* number of elements */
    size_t same; /* index of the first name of the same tensor; its own index if it is the first */
};

/* Finds the first name of a tensor that has several. */
struct stat_name {
    UT_hash_handle hh; /* key: inode number */
    size_t at;         /* index in the list of tensors */
};

struct stat {
    struct zf_tree *tree;
    zf_vec(struct stat_tensor) tensor;
    struct stat_name *names;
    struct stretches stretches; /* of each tensor */
    uint64_t bytes;             /* total to be read */
    struct zf_stats *done;      /* [tensor.n] */
    const struct opts *o;
    struct page page;
};

/* ---- which tensors ----------------------------------------------------------------------------- */

/* Sets *out to the index of the tensor's first name; to `own` if this is the first. */
static bool stat_same(struct stat *s, const struct zf_stat *st, size_t own, size_t *out,
                      struct zf_err *err)
{
    const unsigned before = HASH_COUNT(s->names);
    struct stat_name *name = st->nlink > 1 ? zf_table_make_id(s->names, st->ino, err) : NULL;

    if (name && HASH_COUNT(s->names) > before)
        name->at = own;
    *out = name ? name->at : own;
    return name || st->nlink <= 1;
}

static bool stat_add(void *ctx, const char *path, const struct zf_stat *st, struct zf_err *err)
{
    struct stat *s = ctx;
    struct zf_node_tensor x;
    const size_t own = s->tensor.n;

    if (!zf_tree_tensor(s->tree, st->ino, &x))
        return true;
    struct stat_tensor *t = zf_vec_push(&s->tensor, err);
    if (!t)
        return false;
    *t = (struct stat_tensor){.ino = st->ino, .dtype = x.dtype, .path = strdup(path)};
    if (!t->path)
        return zf_fail_sys(err, "list tensors");
    if (!zf_elems(x.tensor->ndim, x.tensor->shape, &t->n)) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the shape has too many elements");
        return zf_err_in(err, "%s", path);
    }
    if (!stat_same(s, st, own, &t->same, err))
        return false;
    s->bytes += t->same == own ? t->n * zf_dtype_info(t->dtype)->bytes : 0;
    return stretches_add(&s->stretches, t->same == own ? t->n / STRETCH + (t->n % STRETCH > 0) : 0,
                         err);
}

static void zf_auto_stat(struct stat *s)
{
    for (size_t i = 0; i < s->tensor.n; i++)
        free(s->tensor.at[i].path);
    zf_vec_fini(&s->tensor);
    zf_table_free(s->names);
    zf_auto_stretches(&s->stretches);
    free(s->done);
}

/* ---- reading them ------------------------------------------------------------------------------ */

static bool stat_read(const struct stat *s, const struct stat_tensor *t, uint64_t first,
                      struct zf_stats *out, struct zf_err *err)
{
    const uint64_t each = zf_dtype_info(t->dtype)->bytes, left = t->n - first;
    const size_t n = left < STRETCH ? (size_t)left : STRETCH;
    zf_auto(mem) void *buf = malloc(n * each);
    size_t got;

    if (!buf)
        return zf_fail_sys(err, "read");
    if (!s->tree->ops->read(s->tree, t->ino, buf, n * each, first * each, &got, err))
        return false;
    if (got != n * each)
        return zf_fail(err, ZF_E_STALE, first * each + got, "the file ends here");
    zf_stats_of(out, t->dtype, buf, n);
    return true;
}

static void *stat_make(void *ctx, uint64_t i, struct zf_err *err)
{
    const struct stat *s = ctx;
    uint64_t in;
    const struct stat_tensor *t = &s->tensor.at[stretches_find(&s->stretches, i, &in)];
    zf_auto(mem) struct zf_stats *out = malloc(sizeof *out);

    if (!out)
        return zf_null(zf_fail_sys(err, "read"));
    if (!stat_read(s, t, in * STRETCH, out, err))
        return zf_null(zf_err_in(err, "%s", t->path));
    return zf_give(out);
}

/* ---- printing ---------------------------------------------------------------------------------- */

/* Width of the columns before the name. */
#define STAT_COLUMNS 69u

/* Prints a number in at most 10 columns. */
static void stat_print_number(bool known, double v)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%.4g", v);
    (void)printf("%10s ", known ? text : "-");
}

static double stat_double(enum zf_dtype t, const uint8_t *p)
{
    char text[ZF_NUMBER_MAX];

    zf_number_text(text, t, p);
    return zf_dtype_info(t)->kind == 'b' ? *p != 0 : strtod(text, NULL);
}

static void stat_print_row(const struct stat *s, size_t i)
{
    const struct stat_tensor *t = &s->tensor.at[i];
    const struct zf_stats *x = &s->done[t->same];
    const bool known = x->finite > 0;

    stat_print_number(known, stat_double(t->dtype, x->min));
    stat_print_number(known, stat_double(t->dtype, x->max));
    stat_print_number(known, x->mean);
    stat_print_number(known, zf_stats_std(x));
    (void)printf("%9" PRIu64 " %6" PRIu64 " %6" PRIu64 "  ", x->zeros, x->nans, x->infs);
    const size_t used = page_last(&s->page, STAT_COLUMNS, 0, t->path);
    if (t->same != i) {
        (void)fputs(" = ", stdout);
        (void)page_last(&s->page, used + 3, 0, s->tensor.at[t->same].path);
    }
    (void)putchar('\n');
}

static void stat_add_numbers(struct zf_out *out, enum zf_dtype t, const struct zf_stats *x)
{
    char min[ZF_NUMBER_MAX], max[ZF_NUMBER_MAX], mean[ZF_NUMBER_MAX], std[ZF_NUMBER_MAX],
        text[5 * ZF_NUMBER_MAX];

    zf_number_json(min, t, x->min);
    zf_number_json(max, t, x->max);
    zf_number_double(mean, x->mean);
    zf_number_double(std, zf_stats_std(x));
    (void)snprintf(text, sizeof text, ",\"min\":%s,\"max\":%s,\"mean\":%s,\"std\":%s", min, max,
                   mean, std);
    zf_out_str(out, text);
}

static bool stat_print_json(const struct stat *s, size_t i, struct zf_err *err)
{
    const struct stat_tensor *t = &s->tensor.at[i];
    const struct zf_stats *x = &s->done[t->same];
    const struct {
        const char *key;
        uint64_t v;
    } count[] = {{"elements", x->n}, {"zeros", x->zeros}, {"nan", x->nans}, {"inf", x->infs}};
    zf_auto(out) struct zf_out out = {0};

    zf_out_str(&out, "{\"path\":");
    zf_out_json(&out, t->path, strlen(t->path));
    zf_out_str(&out, ",\"dtype\":");
    zf_out_json(&out, zf_dtype_info(t->dtype)->suffix, strlen(zf_dtype_info(t->dtype)->suffix));
    for (size_t k = 0; k < sizeof count / sizeof *count; k++)
        zf_out_fmt(&out, ",\"%s\":%" PRIu64, count[k].key, count[k].v);
    if (x->finite > 0)
        stat_add_numbers(&out, t->dtype, x);
    zf_out_str(&out, "}");
    if (!zf_out_ok(&out, err))
        return false;
    (void)puts(zf_out_text(&out));
    return true;
}

static bool stat_print(const struct stat *s, size_t i, struct zf_err *err)
{
    if (s->o->json)
        return stat_print_json(s, i, err);
    if (i == 0) {
        (void)printf("%10s %10s %10s %10s %9s %6s %6s  %s\n", "min", "max", "mean", "std", "zeros",
                     "nan", "inf", "tensor");
    }
    stat_print_row(s, i);
    return true;
}

/* ---- the command ------------------------------------------------------------------------------- */

/* The number of bytes in the stretch that begins at element `at`. */
static uint64_t stat_bytes(const struct stat_tensor *t, uint64_t at)
{
    return (t->n - at < STRETCH ? t->n - at : STRETCH) * zf_dtype_info(t->dtype)->bytes;
}

/* Joins the stretches of each tensor and prints it as soon as it is complete. */
static bool stat_all(struct stat *s, struct zf_err *err)
{
    s->done = calloc(s->tensor.n, sizeof *s->done);
    zf_auto(ahead) struct zf_ahead *ahead =
        s->done ? stretches_start(&s->stretches, s->o, stat_make, s, err) : NULL;
    if (!ahead)
        return s->done ? false : zf_fail_sys(err, "read");
    struct progress_at done = {.all = s->bytes, .what = "tensor", .items = s->tensor.n};
    struct progress progress;

    progress_start(&progress, true);
    for (size_t i = 0; i < s->tensor.n; i++) {
        const struct stat_tensor *t = &s->tensor.at[i];

        for (uint64_t at = 0; t->same == i && at < t->n; at += STRETCH) {
            zf_auto(mem) struct zf_stats *some = zf_ahead_take(ahead, err);

            if (!some) {
                progress_clear(&progress);
                return false;
            }
            zf_stats_join(&s->done[i], t->dtype, some);
            done.bytes = done.moved += stat_bytes(t, at);
            done.item = i;
            progress_show(&progress, &done);
        }
        progress_clear(&progress);
        if (!stat_print(s, i, err))
            return false;
    }
    return true;
}

int cmd_stat(const struct opts *o, int n, char **word)
{
    zf_auto(stat) struct stat s = {.o = o, .page = page_of(stdout, o->color)};
    struct zf_err err;
    zf_auto(tree) struct zf_tree *tree = open_asked(word[0], o, &err);

    if (!tree)
        return cmd_fail(&err);
    s.tree = tree;
    (void)open_listing(tree, o, false);
    const bool ok =
        tensors_each(tree, n > 1 ? word[1] : NULL, stat_add, &s, &err) && stat_all(&s, &err);
    return cmd_finish(ok ? EXIT_OK : cmd_negative(&err));
}

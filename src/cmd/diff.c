/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs diff: lists tensors that only one of two checkpoints has, and how far values differ, whatever the formats and
 * shardings.  Tensors of the same set and name are compared piecewise by threads, and reported in order. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/glob.h>
#include <zf/base/name.h>
#include <zf/base/num.h>
#include <zf/base/out.h>
#include <zf/codec/json.h>
#include <zf/inspect/compare.h>
#include <zf/inspect/number.h>
#include <zf/model/cast.h>
#include <zf/overlay/index.h>

#include "open.h"
#include "page.h"
#include "parse.h"
#include "print.h"
#include "progress.h"
#include "stretch.h"

/* The result for a name that occurs on either side. */
enum diff_kind { DIFF_ONLY_A, DIFF_ONLY_B, DIFF_SHAPE, DIFF_TYPE, DIFF_VALUES };
static const char *const kind_words[] = {"only_a", "only_b", "shape", "dtype", "values"};

struct diff_pair {
    const struct zf_set *set; /* A's set if A has the tensor, else B's */
    const struct zf_tensor *a, *b;
    enum diff_kind kind;
    enum zf_dtype dtype; /* the dtype in which values are compared */
    uint64_t n, step;    /* number of elements, in all and in a stretch */
};

struct diff {
    const struct opts *o;
    const char *pattern;         /* compares only names that match; or NULL */
    struct zf_comparison within; /* the tolerances; its dtype is set for each pair */
    zf_vec(struct diff_pair) pair;
    struct stretches stretches; /* of each pair */
    uint64_t n_both, n_of[DIFF_VALUES + 1], n_bits;
    struct progress progress;
    struct progress_at done; /* counts bytes of A */
    struct page page;
};

static void diff_fini(struct diff *d)
{
    zf_vec_fini(&d->pair);
    zf_auto_stretches(&d->stretches);
}

/* ---- which tensors are compared ---------------------------------------------------------------- */

/* Sets *out to the dtype in which two dtypes are compared: the narrower one, to which the wider is rounded as in
 * as/; f32 if zerofs cannot cast to that.  False: there is no common dtype. */
static bool diff_type(enum zf_dtype a, enum zf_dtype b, enum zf_dtype *out)
{
    const uint32_t na = zf_dtype_info(a)->bytes, nb = zf_dtype_info(b)->bytes;
    const enum zf_dtype wide = na < nb ? b : a, narrow = na < nb ? a : b;

    if (a == b || (na != nb && zf_can_cast(wide, narrow))) {
        *out = narrow;
        return true;
    }
    *out = ZF_DT_F32;
    return zf_can_cast(a, ZF_DT_F32) && zf_can_cast(b, ZF_DT_F32);
}

static bool diff_matches(const struct diff *d, const struct zf_set *s, const struct zf_tensor *t,
                         bool *out, struct zf_err *err)
{
    zf_auto(out) struct zf_out path = {0};

    *out = !d->pattern;
    if (*out)
        return true;
    zf_out_fmt(&path, "%s%s", s->path, s->path[0] ? "/" : "");
    zf_out_add(&path, t->name, t->name_len);
    if (!zf_out_ok(&path, err))
        return false;
    *out = zf_glob_match(d->pattern, zf_out_text(&path));
    zf_out_fmt(&path, ".%s", zf_dtype_info(t->dtype)->suffix);
    *out = *out || zf_glob_match(d->pattern, zf_out_text(&path));
    return zf_out_ok(&path, err);
}

/* Adds a pair; a or b may be NULL. */
static bool diff_add(struct diff *d, const struct zf_set *s, const struct zf_tensor *a,
                     const struct zf_tensor *b, struct zf_err *err)
{
    struct diff_pair p = {.set = s,
                          .a = a,
                          .b = b,
                          .kind = !b   ? DIFF_ONLY_A
                                  : !a ? DIFF_ONLY_B
                                       : DIFF_VALUES};
    uint64_t stretches = 0;
    bool wanted;

    if (!diff_matches(d, s, a ? a : b, &wanted, err) || !wanted)
        return !wanted;
    if (p.kind == DIFF_VALUES) {
        d->n_both++;
        if (a->ndim != b->ndim ||
            (a->ndim && memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape) != 0)) {
            p.kind = DIFF_SHAPE;
        } else if (!diff_type(a->dtype, b->dtype, &p.dtype)) {
            p.kind = DIFF_TYPE;
        } else {
            p.step = STRETCH_BYTES / zf_dtype_info(p.dtype)->bytes;
            p.n = zf_map_size(a->data) / zf_dtype_info(a->dtype)->bytes;
            stretches = p.n / p.step + (p.n % p.step > 0);
            d->done.all += zf_map_size(a->data);
        }
    }
    struct diff_pair *at = zf_vec_push(&d->pair, err);
    if (at)
        *at = p;
    return at && stretches_add(&d->stretches, stretches, err);
}

static int diff_cmp_names(const struct zf_tensor *a, const struct zf_tensor *b)
{
    return zf_name_cmp(a->name, a->name_len, b->name, b->name_len);
}

/* Adds the tensors of two sets, which are sorted; NULL stands for an empty set. */
static bool diff_add_sets(struct diff *d, const struct zf_set *a, const struct zf_set *b,
                          struct zf_err *err)
{
    const uint32_t na = a ? a->n : 0, nb = b ? b->n : 0;

    for (uint32_t i = 0, k = 0; i < na || k < nb;) {
        const int order = i == na ? 1 : k == nb ? -1 : diff_cmp_names(&a->tensor[i], &b->tensor[k]);

        if (!diff_add(d, a ? a : b, order <= 0 ? &a->tensor[i] : NULL,
                      order >= 0 ? &b->tensor[k] : NULL, err))
            return false;
        i += order <= 0;
        k += order >= 0;
    }
    return true;
}

static bool diff_list(struct diff *d, const struct zf_checkpoint *a, const struct zf_checkpoint *b,
                      struct zf_err *err)
{
    for (uint32_t i = 0, k = 0; i < a->n_sets || k < b->n_sets;) {
        const int order = i == a->n_sets   ? 1
                          : k == b->n_sets ? -1
                                           : strcmp(a->set[i].path, b->set[k].path);

        if (!diff_add_sets(d, order <= 0 ? &a->set[i] : NULL, order >= 0 ? &b->set[k] : NULL, err))
            return false;
        i += order <= 0;
        k += order >= 0;
    }
    return true;
}

/* ---- comparing --------------------------------------------------------------------------------- */

static bool diff_read(const struct zf_tensor *t, enum zf_dtype as, void *buf, uint64_t first,
                      uint64_t n, struct zf_err *err)
{
    const uint64_t each = zf_dtype_info(as)->bytes;
    const bool ok = t->dtype == as
                        ? zf_map_read(t->data, buf, n * each, first * each, err)
                        : zf_map_read_cast(t->data, t->dtype, as, buf, n * each, first * each, err);

    return ok || zf_err_in(err, "%s", t->name);
}

static void *diff_make(void *ctx, uint64_t i, struct zf_err *err)
{
    const struct diff *d = ctx;
    uint64_t in;
    const struct diff_pair *p = &d->pair.at[stretches_find(&d->stretches, i, &in)];
    const uint64_t first = in * p->step, left = p->n - first, n = left < p->step ? left : p->step;
    zf_auto(mem) uint8_t *a = malloc(STRETCH_BYTES), *b = malloc(STRETCH_BYTES);
    zf_auto(mem) struct zf_difference *out = malloc(sizeof *out);
    struct zf_comparison how = d->within;

    if (!a || !b || !out)
        return zf_null(zf_fail_sys(err, "compare"));
    if (!diff_read(p->a, p->dtype, a, first, n, err) ||
        !diff_read(p->b, p->dtype, b, first, n, err))
        return NULL;
    how.dtype = p->dtype;
    zf_difference_of(out, &how, a, b, n, first);
    return zf_give(out);
}

/* ---- reporting --------------------------------------------------------------------------------- */

static size_t diff_print_name(const struct page *page, const struct diff_pair *p, char mark)
{
    const char *set = p->set->path;
    zf_auto(out) struct zf_out name = {0};

    zf_out_fmt(&name, "%s%s%s", set, set[0] ? "/" : "", (p->a ? p->a : p->b)->name);
    (void)printf("%c ", mark);
    return page_last(page, 2, 0, zf_out_text(&name));
}

/* Prints the index of element number `at` of a tensor: "[3, 1]". */
static void diff_print_index(FILE *to, const struct zf_tensor *t, uint64_t at)
{
    uint64_t inner = 1;

    for (uint32_t d = 0; d < t->ndim; d++)
        inner *= t->shape[d];
    (void)fputc('[', to);
    for (uint32_t d = 0; d < t->ndim; d++) {
        inner /= t->shape[d];
        (void)fprintf(to, "%s%" PRIu64, d ? ", " : "", at / inner);
        at %= inner;
    }
    (void)fputc(']', to);
}

static void diff_print_values(FILE *to, const struct diff_pair *p, const struct zf_difference *x)
{
    char a[ZF_NUMBER_MAX], b[ZF_NUMBER_MAX];

    (void)fprintf(to, "  %" PRIu64 " of %" PRIu64 " differ", x->differ, p->n);
    if (x->far) {
        zf_number_text(a, p->dtype, x->a);
        zf_number_text(b, p->dtype, x->b);
        (void)fprintf(to, ", at most by %.6g at ", x->most);
        diff_print_index(to, p->a, x->at);
        (void)fprintf(to, ": %s / %s", a, b);
    }
    if (x->nans)
        (void)fprintf(to, ", %" PRIu64 " are NaN on one side only", x->nans);
}

static void diff_print_types(FILE *to, const struct diff_pair *p)
{
    if (p->a->dtype != p->b->dtype) {
        (void)fprintf(to, "  %s / %s", zf_dtype_info(p->a->dtype)->suffix,
                      zf_dtype_info(p->b->dtype)->suffix);
        (void)fprintf(to, p->kind == DIFF_VALUES ? ", compared as %s" : "",
                      zf_dtype_info(p->dtype)->suffix);
    }
}

/* Prints how the pair differs; follows the name on its line. */
static void diff_print_how(FILE *to, const struct diff_pair *p, const struct zf_difference *x)
{
    diff_print_types(to, p);
    if (p->kind == DIFF_SHAPE) {
        (void)fputs("  ", to);
        (void)print_shape(to, p->a);
        (void)fputs(" / ", to);
        (void)print_shape(to, p->b);
    } else if (p->kind == DIFF_VALUES) {
        if (x->differ)
            diff_print_values(to, p, x);
        if (x->bits) {
            (void)fprintf(to, "%s %" PRIu64 " are equal in value but not in bits",
                          x->differ ? "," : " ", x->bits);
        }
    }
}

static void diff_print_text(const struct page *page, const struct diff_pair *p,
                            const struct zf_difference *x)
{
    const bool one = p->kind == DIFF_ONLY_A || p->kind == DIFF_ONLY_B,
               same = p->kind == DIFF_VALUES && x->differ == 0;
    const char mark = !one ? (same ? '=' : '~') : p->kind == DIFF_ONLY_A ? '-' : '+';
    const size_t used = diff_print_name(page, p, mark);
    zf_auto(mem) char *how = NULL;
    size_t n = 0;
    FILE *to = one ? NULL : open_memstream(&how, &n);

    if (to) {
        diff_print_how(to, p, x);
        (void)fclose(to);
        (void)page_last(page, used, 0, how ? how : "");
    } else if (!one) {
        diff_print_how(stdout, p, x);
    }
    (void)putchar('\n');
}

static json_t *diff_json_side(const struct zf_tensor *t)
{
    return json_pack("{s:s, s:o}", "dtype", zf_dtype_info(t->dtype)->suffix, "shape",
                     zf_index_shape(t));
}

static json_t *diff_json_number(enum zf_dtype t, const uint8_t *p)
{
    char text[ZF_NUMBER_MAX];

    zf_number_json(text, t, p);
    return json_loads(text, JSON_DECODE_ANY, NULL);
}

static void diff_print_json(const struct diff_pair *p, const struct zf_difference *x)
{
    json_t *j =
        json_pack("{s:s, s:o, s:o}", "kind", kind_words[p->kind], "set", zf_json_text(p->set->path),
                  "name", zf_json_text((p->a ? p->a : p->b)->name));

    if (p->a)
        (void)json_object_set_new(j, "a", diff_json_side(p->a));
    if (p->b)
        (void)json_object_set_new(j, "b", diff_json_side(p->b));
    if (p->kind == DIFF_VALUES) {
        (void)json_object_set_new(j, "elements", json_integer((json_int_t)p->n));
        (void)json_object_set_new(j, "compared_as", json_string(zf_dtype_info(p->dtype)->suffix));
        (void)json_object_set_new(j, "differ", json_integer((json_int_t)x->differ));
        (void)json_object_set_new(j, "other_bits", json_integer((json_int_t)x->bits));
        (void)json_object_set_new(j, "nan_on_one_side", json_integer((json_int_t)x->nans));
    }
    if (p->kind == DIFF_VALUES && x->far) {
        char most[ZF_NUMBER_MAX];

        zf_number_json(most, ZF_DT_F64, &x->most);
        (void)json_object_set_new(j, "most", json_loads(most, JSON_DECODE_ANY, NULL));
        (void)json_object_set_new(j, "at", json_integer((json_int_t)x->at));
        (void)json_object_set_new(j, "value_a", diff_json_number(p->dtype, x->a));
        (void)json_object_set_new(j, "value_b", diff_json_number(p->dtype, x->b));
    }
    (void)json_dumpf(j, stdout, JSON_COMPACT);
    (void)putchar('\n');
    json_decref(j);
}

/* The length of a prefix that all names of `longer` have and whose removal gives names of `shorter`; 0: none. */
static size_t diff_prefix(const struct zf_set *longer, const struct zf_set *shorter)
{
    const struct zf_tensor *t =
        longer && shorter && longer->n && shorter->n ? &longer->tensor[0] : NULL;
    size_t cut = 0;

    for (uint32_t i = 0; t && !cut && i < shorter->n; i++) {
        const struct zf_tensor *s = &shorter->tensor[i];

        if (t->name_len > s->name_len &&
            memcmp(t->name + t->name_len - s->name_len, s->name, s->name_len) == 0)
            cut = t->name_len - s->name_len;
    }
    for (uint32_t i = 0; cut && i < longer->n; i++) {
        const struct zf_tensor *x = &longer->tensor[i];

        if (x->name_len <= cut || memcmp(x->name, t->name, cut) != 0)
            return 0;
    }
    return cut;
}

/* If both sides have no name in common, suggests -o strip_prefix= where only a prefix differs. */
static void diff_suggest(const struct diff *d, const struct zf_checkpoint *a,
                         const struct zf_checkpoint *b)
{
    const struct zf_set *x = zf_checkpoint_set(a, ""), *y = zf_checkpoint_set(b, "");
    const size_t of_a = diff_prefix(x, y), of_b = diff_prefix(y, x);

    if (d->n_both > 0 || (!of_a && !of_b))
        return;
    (void)fprintf(stderr,
                  "zerofs: the two checkpoints have no name in common. Remove the prefix of one: "
                  "-%c strip_prefix=",
                  of_a ? 'A' : 'B');
    zf_auto(mem) char *prefix = strndup((of_a ? x : y)->tensor[0].name, of_a ? of_a : of_b);
    print_name(stderr, prefix ? prefix : "");
    (void)fputs("\n", stderr);
}

static void diff_print_sum(const struct diff *d)
{
    const uint64_t differ = d->n_of[DIFF_SHAPE] + d->n_of[DIFF_TYPE] + d->n_of[DIFF_VALUES];

    if (d->o->json) {
        (void)printf("{\"kind\":\"sum\",\"equal\":%" PRIu64 ",\"differ\":%" PRIu64
                     ",\"only_a\":%" PRIu64 ",\"only_b\":%" PRIu64 ",\"other_bits\":%" PRIu64 "}\n",
                     d->n_both - differ, differ, d->n_of[DIFF_ONLY_A], d->n_of[DIFF_ONLY_B],
                     d->n_bits);
        return;
    }
    (void)printf("%" PRIu64 " equal, %" PRIu64 " differ, %" PRIu64 " only in A, %" PRIu64
                 " only in B\n",
                 d->n_both - differ, differ, d->n_of[DIFF_ONLY_A], d->n_of[DIFF_ONLY_B]);
}

/* ---- the command ------------------------------------------------------------------------------- */

/* Computes *x for a pair from the threads' results. */
static bool diff_pair_compare(struct diff *d, const struct diff_pair *p, struct zf_ahead *ahead,
                              struct zf_difference *x, struct zf_err *err)
{
    *x = (struct zf_difference){0};
    for (uint64_t at = 0; p->kind == DIFF_VALUES && at < p->n; at += p->step) {
        zf_auto(mem) struct zf_difference *some = zf_ahead_take(ahead, err);

        if (!some)
            return false;
        zf_difference_join(x, some);
        d->done.bytes +=
            (p->n - at < p->step ? p->n - at : p->step) * zf_dtype_info(p->a->dtype)->bytes;
        d->done.moved = d->done.bytes;
        progress_show(&d->progress, &d->done);
        if (d->o->quiet && x->differ)
            return true;
    }
    return true;
}

static bool diff_all(struct diff *d, bool *equal, struct zf_err *err)
{
    zf_auto(ahead) struct zf_ahead *ahead = stretches_start(&d->stretches, d->o, diff_make, d, err);

    *equal = true;
    d->done.what = "tensor";
    d->done.items = d->pair.n;
    progress_start(&d->progress, !d->o->quiet);
    for (size_t i = 0; ahead && i < d->pair.n && (*equal || !d->o->quiet); i++) {
        const struct diff_pair *p = &d->pair.at[i];
        struct zf_difference x;

        d->done.item = i;
        if (!diff_pair_compare(d, p, ahead, &x, err)) {
            progress_clear(&d->progress);
            return false;
        }
        const bool same = p->kind == DIFF_VALUES && x.differ == 0;
        d->n_of[p->kind] += !same;
        d->n_bits += same && x.bits > 0;
        *equal = *equal && same;
        if (!d->o->quiet && (!same || x.bits || p->a->dtype != p->b->dtype)) {
            progress_clear(&d->progress);
            if (d->o->json)
                diff_print_json(p, &x);
            else
                diff_print_text(&d->page, p, &x);
        }
    }
    progress_clear(&d->progress);
    return ahead != NULL;
}

/* The options of one side: the common ones and its own. */
struct diff_side {
    struct opts o;
    struct zf_err *err;
    bool ok;
};

static void diff_side_give(void *ctx, const char *name, const char *value)
{
    struct diff_side *s = ctx;
    zf_auto(out) struct zf_out text = {0};

    zf_out_fmt(&text, "%s%s", name, value ? "=" : "");
    for (const char *p = value ? value : ""; *p; p++) {
        zf_out_str(&text, *p == ',' ? "\\" : "");
        zf_out_add(&text, p, 1);
    }
    s->ok = s->ok && zf_out_ok(&text, s->err) &&
            opts_list(&s->o, cmd_find("diff"), zf_out_text(&text), s->err);
}

static struct zf_checkpoint *diff_open(const char *path, const struct opts *both,
                                       const struct opt_list *own, struct zf_err *err)
{
    struct diff_side s = {.o = opts_default(), .err = err, .ok = true};
    struct zf_checkpoint *c = NULL;

    opts_each(both, OPTS_GIVEN, diff_side_give, &s);
    for (size_t i = 0; s.ok && i < own->n; i++)
        s.ok = opts_list(&s.o, cmd_find("diff"), own->at[i], err);
    if (s.ok && opts_finish(&s.o, err)) {
        c = open_checkpoint(path, &s.o, err);
        if (!c)
            open_say_remedy(path, &s.o, err);
    }
    opts_fini(&s.o);
    return c;
}

static bool diff_tolerance(const char *text, const char *name, double *out, struct zf_err *err)
{
    char *end = NULL;

    *out = text ? strtod(text, &end) : 0;
    if (text && (end == text || *end || !(*out >= 0 && *out <= 1e308))) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "--%s=%.40s: expected a number, such as 1e-3",
                       name, text);
    }
    return true;
}

int cmd_diff(const struct opts *o, int n, char **word)
{
    struct diff d = {.o = o, .pattern = n > 2 ? word[2] : NULL, .page = page_of(stdout, o->color)};
    struct zf_err err;
    bool equal;

    if (!diff_tolerance(o->rtol, "rtol", &d.within.rtol, &err) ||
        !diff_tolerance(o->atol, "atol", &d.within.atol, &err))
        return cmd_fail(&err);
    zf_auto(checkpoint) struct zf_checkpoint *a = diff_open(word[0], o, &o->options_a, &err);
    if (!a)
        return cmd_fail(&err);
    zf_auto(checkpoint) struct zf_checkpoint *b = diff_open(word[1], o, &o->options_b, &err);
    if (!b)
        return cmd_fail(&err);
    const bool ok = diff_list(&d, a, b, &err) && diff_all(&d, &equal, &err);
    if (ok && d.pattern && d.pair.n == 0) {
        diff_fini(&d);
        (void)zf_fail(&err, ZF_E_NOENT, ZF_OFF_NONE, "no tensor of either checkpoint matches");
        (void)zf_err_in(&err, "%s", d.pattern);
        return cmd_negative(&err);
    }
    if (ok && !o->quiet) {
        diff_print_sum(&d);
        diff_suggest(&d, a, b);
    }
    diff_fini(&d);
    return cmd_finish(!ok ? cmd_fail(&err) : equal ? EXIT_OK : EXIT_NEGATIVE);
}

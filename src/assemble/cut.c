/* SPDX-License-Identifier: Apache-2.0 */
/* Makes boxes from a rule and the shapes of the shards, and proves that they cover the whole tensor exactly once. */
#include <zf/assemble/cut.h>

#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/num.h>
#include <zf/base/table.h>

#define CUT_BOXES 4096 /* different boxes of one tensor: each is compared with each */

/* ---- laying ---- */

struct cut_lay {
    const struct zf_cut_rule *rule;
    uint32_t ndim, n_ranks;
    const uint64_t *const *shard;
    uint64_t *shape;
    struct zf_arena *a;
};

/* Checks that all dimensions but `dim` have the size of rank 0's shard. */
static bool cut_same_extents(const struct cut_lay *l, uint32_t dim, struct zf_err *err)
{
    for (uint32_t r = 1; r < l->n_ranks; r++) {
        for (uint32_t d = 0; d < l->ndim; d++) {
            if (d != dim && l->shard[r][d] != l->shard[0][d]) {
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "the shard of rank %u has %llu elements along dimension %u, that of "
                               "rank 0 has %llu",
                               r, (unsigned long long)l->shard[r][d], d,
                               (unsigned long long)l->shard[0][d]);
            }
        }
    }
    return true;
}

/* The size of sub-parameter s in the shard of rank r. */
static uint64_t cut_width(const struct cut_lay *l, uint32_t s, uint32_t r)
{
    const struct zf_cut_rule *rule = l->rule;

    return rule->kind != ZF_CUT_SUBS ? l->shard[r][rule->dim]
           : rule->width             ? rule->width[s * (size_t)l->n_ranks + r]
                                     : l->shard[r][rule->dim] / rule->n_subs;
}

/* Checks that the sub-parameters fill each shard. */
static bool cut_check_widths(const struct cut_lay *l, uint32_t n_subs, struct zf_err *err)
{
    for (uint32_t r = 0; r < l->n_ranks; r++) {
        uint64_t sum = 0, have = l->shard[r][l->rule->dim];

        for (uint32_t s = 0; s < n_subs; s++)
            if (!zf_add(sum, cut_width(l, s, r), &sum))
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "its widths add up beyond 64 bits");
        if (sum != have) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the shard of rank %u has %llu elements along dimension %u, which are "
                           "not %u sub-parameters%s",
                           r, (unsigned long long)have, l->rule->dim, n_subs,
                           l->rule->width ? " of the recorded widths" : " of equal width");
        }
    }
    return true;
}

/* Makes the box of the shard that starts at `from` along dim the box of the whole that starts at `to`;
 * rows of the whole that are dropped (padding) are cut off. */
static bool cut_put(const struct cut_lay *l, const uint64_t *shard, struct zf_cut_box *out,
                    const uint64_t at[3], struct zf_err *err)
{
    uint64_t *p = zf_arena_get(l->a, 3 * (uint64_t)l->ndim + 1, sizeof *p, err);
    uint64_t *size = p + 2 * (size_t)l->ndim;

    if (!p)
        return false;
    *out = (struct zf_cut_box){p, p + l->ndim, size};
    for (uint32_t d = 0; d < l->ndim; d++) {
        bool cut = l->rule->kind != ZF_CUT_COPIES && d == l->rule->dim;

        p[d] = cut ? at[0] : 0;
        p[l->ndim + d] = cut ? at[1] : 0;
        size[d] = cut ? at[2] : shard[d];
    }
    if (l->rule->rows > 0) {
        uint64_t left = p[l->ndim] < l->rule->rows ? l->rule->rows - p[l->ndim] : 0;

        size[0] = size[0] < left ? size[0] : left;
    }
    return true;
}

static bool cut_put_all(const struct cut_lay *l, uint32_t n_subs, struct zf_cut_part *part,
                        struct zf_err *err)
{
    uint64_t to = 0;

    for (uint32_t r = 0; r < l->n_ranks; r++) {
        struct zf_cut_box *box = zf_arena_get(l->a, n_subs, sizeof *box, err);

        if (!box)
            return false;
        part[r] = (struct zf_cut_part){box, n_subs};
    }
    uint64_t *from = zf_arena_get(l->a, l->n_ranks, sizeof *from, err);
    for (uint32_t s = 0; from && s < n_subs; s++) {
        for (uint32_t r = 0; r < l->n_ranks; r++) {
            uint64_t n = l->rule->kind == ZF_CUT_COPIES ? 0 : cut_width(l, s, r);
            struct zf_cut_box *box = (struct zf_cut_box *)&part[r].box[s];

            if (!cut_put(l, l->shard[r], box, (const uint64_t[]){from[r], to, n}, err))
                return false;
            from[r] += n;
            if (!zf_add(to, n, &to))
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the whole is beyond 64 bits");
        }
    }
    if (from && l->rule->kind != ZF_CUT_COPIES)
        l->shape[l->rule->dim] = to;
    return from != NULL;
}

bool zf_cut_lay(const struct zf_cut_rule *rule, uint32_t ndim, const uint64_t *const *shard,
                uint32_t n_ranks, struct zf_arena *a, struct zf_cut *out, struct zf_err *err)
{
    bool copies = rule->kind == ZF_CUT_COPIES;
    uint32_t n_subs = rule->kind == ZF_CUT_SUBS ? rule->n_subs : 1;
    struct zf_cut_part *part = zf_arena_get(a, n_ranks, sizeof *part, err);
    uint64_t *shape = zf_arena_get(a, ndim + 1ull, sizeof *shape, err);
    const struct cut_lay l = {rule, ndim, n_ranks, shard, shape, a};

    if (!part || !shape)
        return false;
    if ((!copies && rule->dim >= ndim) || (rule->rows > 0 && ndim == 0)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "it has %u dimensions, but should be cut along dimension %u", ndim,
                       copies ? 0 : rule->dim);
    }
    if (n_subs == 0)
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "it has 0 sub-parameters, expected at least 1");
    if (ndim > 0)
        memcpy(shape, shard[0], ndim * sizeof *shape);
    if (!cut_same_extents(&l, copies ? UINT32_MAX : rule->dim, err) ||
        (!copies && !cut_check_widths(&l, n_subs, err)) || !cut_put_all(&l, n_subs, part, err))
        return false;
    if (rule->rows > 0) {
        if (rule->rows > shape[0]) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "it should have %llu rows without padding, but has only %llu",
                           (unsigned long long)rule->rows, (unsigned long long)shape[0]);
        }
        shape[0] = rule->rows;
    }
    *out = (struct zf_cut){.ndim = ndim, .n_ranks = n_ranks, .shape = shape, .part = part};
    return true;
}

/* ---- proving ---- */

static bool cut_box_inside(const struct zf_cut *c, const struct zf_cut_box *b, uint64_t *n)
{
    *n = 1;
    for (uint32_t d = 0; d < c->ndim; d++) {
        if (b->size[d] == 0) {
            *n = 0;
            return true;
        }
    }
    for (uint32_t d = 0; d < c->ndim; d++) {
        if (!zf_within(b->in_whole[d], b->size[d], c->shape[d]))
            return false;
        *n *= b->size[d];
    }
    return true;
}

static bool cut_overlap(const struct zf_cut *c, const struct zf_cut_box *x,
                        const struct zf_cut_box *y)
{
    for (uint32_t d = 0; d < c->ndim; d++)
        if (x->in_whole[d] >= y->in_whole[d] + y->size[d] ||
            y->in_whole[d] >= x->in_whole[d] + x->size[d])
            return false;
    return true;
}

/* A box that was counted, and the first rank with it. */
struct cut_seen {
    UT_hash_handle hh;
    const struct zf_cut_box *box;
    uint32_t rank;
};

static uint64_t cut_hash(const struct zf_cut *c, const struct zf_cut_box *b)
{
    size_t n = c->ndim * sizeof *b->size;

    return zf_hash(zf_hash(1, b->in_whole, n), b->size, n);
}

/* The entry of the box; *first: it did not exist yet. */
static struct cut_seen *cut_enter_box(struct cut_seen **seen, const struct zf_cut *c,
                                      const struct zf_cut_box *b, uint32_t rank, bool *first,
                                      struct zf_err *err)
{
    struct cut_seen *s = zf_table_make_id(*seen, cut_hash(c, b), err);

    *first = s && !s->box;
    if (*first) {
        s->box = b;
        s->rank = rank;
    }
    return s;
}

static bool cut_prove_box(const struct zf_cut *c, struct cut_seen **seen, uint32_t rank,
                          const struct zf_cut_box *b, uint64_t *left, struct zf_err *err)
{
    unsigned before = HASH_COUNT(*seen);
    uint64_t n;
    bool first;

    if (!cut_box_inside(c, b, &n)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "a piece of rank %u reaches outside the whole tensor", rank);
    }
    if (n == 0)
        return true;
    if (!cut_enter_box(seen, c, b, rank, &first, err))
        return false;
    if (!first)
        return true;
    if (before >= CUT_BOXES)
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "it has more than %u pieces", CUT_BOXES);
    for (const struct cut_seen *s = *seen; s->box != b; s = s->hh.next) {
        if (cut_overlap(c, s->box, b)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "a piece of rank %u overlaps one of rank %u", rank, s->rank);
        }
    }
    *left -=
        n; /* cannot underflow: boxes that do not overlap have at most the elements of the whole */
    return true;
}

bool zf_cut_prove(const struct zf_cut *c, struct zf_err *err)
{
    struct cut_seen *seen = NULL;
    uint64_t left = 0;
    bool ok = zf_elems(c->ndim, c->shape, &left) ||
              zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the whole is beyond 64 bits");

    for (uint32_t r = 0; ok && r < c->n_ranks; r++)
        for (uint32_t i = 0; ok && i < c->part[r].n; i++)
            ok = cut_prove_box(c, &seen, r, &c->part[r].box[i], &left, err);
    zf_table_free(seen);
    return ok && (left == 0 || zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                                       "%llu elements of the whole tensor are on no rank",
                                       (unsigned long long)left));
}

/* ---- comparing copies ---- */

#define CUT_WHOLE (1u << 20)  /* a box of up to this many bytes is compared completely */
#define CUT_PLACE (64u << 10) /* bytes compared at each of CUT_PLACES positions of a larger one */
#define CUT_PLACES 3u
#define CUT_ALL (256ull << 20)

struct cut_copy {
    struct zf_draft *d;
    const uint64_t *start; /* of the box */
};

/* The number of elements of the box that are contiguous in both tensors, in C order: those of the
 * innermost dimensions that it covers completely. */
static uint64_t cut_run(const struct zf_cut_box *box, struct zf_type x, struct zf_type y)
{
    uint64_t run = 1;

    for (uint32_t d = x.ndim; d-- > 0;) {
        run *= box->size[d];
        if (box->size[d] != x.shape[d] || box->size[d] != y.shape[d])
            break;
    }
    return run;
}

/* The element of the tensor at position `at` of the box. */
static uint64_t cut_element(const struct cut_copy *c, const uint64_t *size, uint64_t at)
{
    struct zf_type t = zf_draft_type(c->d);
    uint64_t element = 0, step = 1;

    for (uint32_t d = t.ndim; d-- > 0;) {
        element += (c->start[d] + at % size[d]) * step;
        at /= size[d];
        step *= t.shape[d];
    }
    return element;
}

/* Compares n elements from position `at` of the box on, which are contiguous in both tensors. */
static bool cut_compare_run(struct zf_copy_check *check, const struct cut_copy c[2],
                            const uint64_t *size, uint64_t at, uint64_t n, bool *same,
                            struct zf_err *err)
{
    uint64_t bytes = n * zf_dtype_info(zf_draft_type(c[0].d).dtype)->bytes;

    if (check->compared >= CUT_ALL) {
        check->unchecked++;
        return true;
    }
    if (!check->buf && !(check->buf = malloc(2 * (size_t)CUT_WHOLE)))
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for comparing tensors");
    check->compared += 2 * bytes;
    for (int i = 0; i < 2; i++)
        if (!zf_draft_read(c[i].d, cut_element(&c[i], size, at), n,
                           check->buf + (i ? CUT_WHOLE : 0), err))
            return false;
    *same = memcmp(check->buf, check->buf + CUT_WHOLE, bytes) == 0;
    return true;
}

/* Compares the positions [first, first + n) of the box. */
static bool cut_compare_span(struct zf_copy_check *check, const struct cut_copy c[2],
                             const struct zf_cut_box *box, struct zf_span span, bool *same,
                             struct zf_err *err)
{
    uint64_t run = cut_run(box, zf_draft_type(c[0].d), zf_draft_type(c[1].d)), n;

    for (uint64_t x = span.first, end = span.first + span.n; x < end && *same; x += n) {
        n = run - x % run;
        n = n < end - x ? n : end - x;
        if (!cut_compare_run(check, c, box->size, x, n, same, err))
            return false;
    }
    return true;
}

/* Ranges of sources, in order. */
struct cut_runs {
    zf_vec(struct cut_run) of;
    struct zf_err *err;
};
struct cut_run {
    struct zf_source *src; /* borrowed; NULL = in none */
    uint64_t off, n;
};

static bool cut_add_run(void *ctx, struct zf_source *src, uint64_t off, uint64_t n)
{
    struct cut_runs *r = ctx;
    struct cut_run *to = zf_vec_push(&r->of, r->err);

    if (to)
        *to = (struct cut_run){src, off, n};
    return to != NULL;
}

static bool cut_leave_bytes(struct zf_copy_check *check, const struct cut_run *a,
                            const struct cut_run *b, uint64_t n, struct zf_err *err)
{
    struct zf_copy *last = check->left.n ? &check->left.at[check->left.n - 1] : NULL;

    if (!a->src || !b->src)
        return true;
    if (last && last->src[0] == a->src && last->src[1] == b->src &&
        last->off[0] + last->n == a->off && last->off[1] + last->n == b->off) {
        last->n += n;
        return true;
    }
    last = zf_vec_push(&check->left, err);
    if (last) {
        *last = (struct zf_copy){
            .src = {zf_source_ref(a->src), zf_source_ref(b->src)}, .off = {a->off, b->off}, .n = n};
    }
    return last != NULL;
}

/* Passes on both lists, which have the same number of bytes, for verify to compare. */
static bool cut_leave_runs(struct zf_copy_check *check, struct cut_runs r[2], struct zf_err *err)
{
    for (size_t i = 0, k = 0; i < r[0].of.n && k < r[1].of.n;) {
        struct cut_run *a = &r[0].of.at[i], *b = &r[1].of.at[k];
        const uint64_t n = a->n < b->n ? a->n : b->n;

        if (!cut_leave_bytes(check, a, b, n, err))
            return false;
        a->off += n;
        b->off += n;
        i += (a->n -= n) == 0;
        k += (b->n -= n) == 0;
    }
    return true;
}

/* Leaves the comparison of both boxes to verify, which reads everything.  Lost bytes are left out. */
static bool cut_leave(struct zf_copy_check *check, const struct cut_copy c[2],
                      const struct zf_cut_box *box, uint64_t n, struct zf_err *err)
{
    const uint64_t run = cut_run(box, zf_draft_type(c[0].d), zf_draft_type(c[1].d));
    bool ok = true;

    for (uint64_t at = 0; ok && at < n; at += run) {
        struct cut_runs r[2] = {{.err = err}, {.err = err}};

        zf_err_clear(err);
        for (int i = 0; ok && i < 2; i++) {
            ok = zf_draft_runs(c[i].d, cut_element(&c[i], box->size, at), run, cut_add_run, &r[i],
                               err) &&
                 err->code == ZF_OK;
        }
        ok = ok ? cut_leave_runs(check, r, err) : err->code == ZF_E_IO;
        zf_vec_fini(&r[0].of);
        zf_vec_fini(&r[1].of);
    }
    return ok;
}

/* Compares the boxes of both drafts, of equal size.  Lost bytes are not compared. */
static bool cut_compare(struct zf_copy_check *check, const struct cut_copy c[2],
                        const struct zf_cut_box *box, bool *same, struct zf_err *err)
{
    struct zf_type t = zf_draft_type(c[0].d);
    uint64_t n = 1, elem = zf_dtype_info(t.dtype)->bytes, whole = CUT_WHOLE / elem;
    uint64_t place = CUT_PLACE / elem, unchecked = check->unchecked;

    for (uint32_t d = 0; d < t.ndim; d++)
        n *= box->size[d];
    *same = true;
    check->sampled += n > whole;
    if (n > 0 && (check->all || n > whole || check->compared >= CUT_ALL) &&
        !cut_leave(check, c, box, n, err))
        return false;
    for (uint32_t k = 0; k < CUT_PLACES && *same && n > 0; k++) {
        struct zf_span span = {n <= whole ? 0 : (n - place) / (CUT_PLACES - 1) * k,
                               n <= whole ? n : place};

        if (n <= whole && k > 0)
            break;
        if (!cut_compare_span(check, c, box, span, same, err)) {
            if (err->code != ZF_E_IO)
                return false;
            zf_err_clear(err);
        }
    }
    if (check->unchecked > unchecked)
        check->unchecked = unchecked + 1; /* one copy, whatever the number of runs */
    return true;
}

bool zf_cut_same(struct zf_copy_check *check, struct zf_draft *a, struct zf_draft *b, bool *same,
                 struct zf_err *err)
{
    struct zf_type t = zf_draft_type(a);
    zf_auto(mem) uint64_t *zero = calloc(t.ndim + (size_t)1, sizeof *zero);
    const struct cut_copy c[2] = {{a, zero}, {b, zero}};

    if (!zero)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for comparing tensors");
    *same = zf_type_equal(t, zf_draft_type(b));
    return !*same || cut_compare(check, c, &(struct zf_cut_box){zero, zero, t.shape}, same, err);
}

/* ---- drafting ---- */

/* The rows of a shard after all of its boxes: padding of the vocabulary, which the rule drops. */
static bool cut_leave_padding(struct zf_copy_check *check, struct zf_draft *shard,
                              const struct zf_cut_part *part, struct zf_err *err)
{
    const struct zf_type t = zf_draft_type(shard);
    struct cut_runs r = {.err = err};
    uint64_t used = 0, row = 1;

    for (uint32_t i = 0; i < part->n; i++) {
        const uint64_t end = part->box[i].in_shard[0] + part->box[i].size[0];

        used = end > used ? end : used;
    }
    for (uint32_t d = 1; d < t.ndim; d++)
        row *= t.shape[d];
    zf_err_clear(err);
    bool ok = used >= t.shape[0] || row == 0 ||
              (zf_draft_runs(shard, used * row, (t.shape[0] - used) * row, cut_add_run, &r, err) &&
               err->code == ZF_OK);
    for (size_t i = 0; ok && i < r.of.n; i++) {
        struct zf_copy *to = r.of.at[i].src ? zf_vec_push(&check->left, err) : NULL;

        ok = to || !r.of.at[i].src;
        if (to) {
            *to = (struct zf_copy){.src = {NULL, zf_source_ref(r.of.at[i].src)},
                                   .off = {0, r.of.at[i].off},
                                   .n = r.of.at[i].n};
        }
    }
    zf_vec_fini(&r.of);
    return ok || err->code == ZF_E_IO; /* lost bytes */
}

/* Takes box i of rank r: a piece of d, or a copy of an earlier rank's box. */
static bool cut_take_box(struct zf_draft *d, struct zf_draft *const *shard,
                         const struct cut_seen *s, uint32_t r, const struct zf_cut_box *box,
                         struct zf_copy_check *check, struct zf_err *err)
{
    const struct cut_copy both[2] = {{shard[s->rank], s->box->in_shard}, {shard[r], box->in_shard}};
    bool same;

    if (s->box == box)
        return zf_draft_copy(d, box->in_whole, shard[r], box->in_shard, box->size, err);
    if (!cut_compare(check, both, box, &same, err))
        return false;
    return same || zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                           "the copies of rank %u and rank %u differ", s->rank, r);
}

struct zf_draft *zf_cut_draft(const struct zf_cut *c, struct zf_build *b, struct zf_spot spot,
                              struct zf_draft *const *shard, struct zf_copy_check *check,
                              struct zf_err *err)
{
    const enum zf_dtype dtype = zf_draft_type(shard[0]).dtype;
    struct zf_draft *d = zf_build_tensor(b, spot, (struct zf_type){dtype, c->ndim, c->shape}, err);
    struct cut_seen *seen = NULL;
    bool ok = d != NULL, first;

    for (uint32_t r = 0; ok && r < c->n_ranks; r++) {
        if (zf_draft_type(shard[r]).dtype != dtype || zf_draft_type(shard[r]).ndim != c->ndim) {
            ok = zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                         "the shard of rank %u has another dtype than that of rank 0", r);
        }
        ok = ok &&
             (!check->all || c->ndim == 0 || cut_leave_padding(check, shard[r], &c->part[r], err));
        for (uint32_t i = 0; ok && i < c->part[r].n; i++) {
            const struct zf_cut_box *box = &c->part[r].box[i];
            const struct cut_seen *s = cut_enter_box(&seen, c, box, r, &first, err);

            ok = s && cut_take_box(d, shard, s, r, box, check, err);
        }
    }
    zf_table_free(seen);
    return ok ? d : NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/source/items.h>

#include <inttypes.h>

#include <zf/base/num.h>
#include <zf/base/search.h>
#include <zf/source/gate.h>
#include <zf/source/want.h>

/* `data` by its two low bits: ..10 = not located yet, with rec_off above them; ...1 = located, with the
 * offset in the file above them; ..00 = a struct item_made *. */
struct item {
    uint64_t addr;
    _Atomic uint64_t data;
};
enum { NOT_YET = 2, IN_FILE = 1, TAGS = 3 };
#define OFF_MAX (UINT64_MAX >> 2)

/* An item whose bytes come from a source of its own (compressed, say). */
struct item_made {
    struct zf_source *src;
    uint64_t rec_off;
};

struct items {
    struct zf_source src;
    struct zf_source *file; /* or NULL */
    zf_item_locate_fn *locate;
    void *ctx;
    void (*ctx_free)(void *);
    zf_items_recipe_fn *recipe; /* or NULL */
    struct zf_gate *gate;       /* of the file, borrowed; NULL = none */
    struct item *item;          /* ascending addr, without gaps */
    size_t n, cap;
};

/* The part of a read that lies in one item, at its offset in `src`. */
struct items_part {
    struct zf_source *src; /* borrowed */
    uint64_t off, len;
};

/* The item that byte `off` (< size) belongs to: the last one that starts at or before it. */
static size_t items_find(const struct items *t, uint64_t off)
{
    size_t next;

    ZF_SEARCH(next, t->n, t->item[next].addr > off);
    return next ? next - 1 : 0;
}

static uint64_t item_end(const struct items *t, size_t i)
{
    return i + 1 < t->n ? t->item[i + 1].addr : t->src.size;
}

static const struct item_made *item_made_of(uint64_t word)
{
    return (const struct item_made *)(uintptr_t)word;
}

static void items_word_drop(uint64_t word)
{
    if (!(word & TAGS)) {
        struct item_made *made = (struct item_made *)(uintptr_t)word;

        zf_source_unref(&made->src);
        free(made);
    }
}

/* Takes at->src, also on failure. */
static bool items_word_make(struct zf_item_at *at, const struct zf_item *it, uint64_t *word_out,
                            struct zf_err *err)
{
    struct item_made *made = malloc(sizeof *made);

    if (!made) {
        zf_source_unref(&at->src);
        return zf_fail_sys(err, "find an item");
    }
    *made = (struct item_made){at->src, it->rec_off};
    *word_out = (uintptr_t)made;
    return true;
}

/* Locates an item by the callback and checks the answer; *word_out as in struct item. */
static bool items_locate(struct items *t, const struct zf_item *it, uint64_t *word_out,
                         struct zf_err *err)
{
    struct zf_item_at at = {0};

    if (!t->locate(t->ctx, t->file, it, &at, err))
        return false;
    if (at.src) {
        const uint64_t have = at.src->size;

        if (have == it->len)
            return items_word_make(&at, it, word_out, err);
        (void)zf_fail(err, ZF_E_FORMAT, t->file ? it->rec_off : ZF_OFF_NONE,
                      "the item here has %" PRIu64 " bytes, expected %" PRIu64, have, it->len);
        (void)(t->file || zf_err_in(err, "%s", at.src->name));
        zf_source_unref(&at.src);
        return false;
    }
    if (!t->file || !zf_within(at.off, it->len, t->file->size) || at.off > OFF_MAX) {
        return zf_fail(err, ZF_E_FORMAT, it->rec_off,
                       "the item here has its data at byte %" PRIu64 ", outside the file", at.off);
    }
    *word_out = at.off << 2 | IN_FILE;
    return true;
}

/* Enters the file's gate first, so that a read that must wait does so before it starts. */
static bool items_locate_inside(struct items *t, const struct zf_item *it, uint64_t *word_out,
                                struct zf_err *err)
{
    bool held;

    if (!zf_gate_enter(t->gate, &held, err))
        return false;
    bool ok = items_locate(t, it, word_out, err);
    zf_gate_leave(t->gate, held);
    return ok;
}

/* Two threads may locate one item at once; the first result is kept. */
static bool items_resolve(struct items *t, size_t i, uint64_t *word_out, struct zf_err *err)
{
    struct item *it = &t->item[i];
    uint64_t known = atomic_load_explicit(&it->data, memory_order_acquire), mine = 0;

    if ((known & TAGS) == NOT_YET) {
        struct zf_item asked = {
            .number = i, .rec_off = known >> 2, .len = item_end(t, i) - it->addr};

        if (!items_locate_inside(t, &asked, &mine, err)) {
            if (!err->path[0])
                (void)zf_err_in(err, "%s", t->src.name);
            return false;
        }
        if (atomic_compare_exchange_strong_explicit(&it->data, &known, mine, memory_order_acq_rel,
                                                    memory_order_acquire))
            known = mine;
        else
            items_word_drop(mine);
    }
    *word_out = known;
    return true;
}

/* The part of [off, off + n) that lies in one item. */
static bool items_part_at(struct items *t, uint64_t off, uint64_t n, struct items_part *out,
                          struct zf_err *err)
{
    size_t i = items_find(t, off);
    uint64_t into = off - t->item[i].addr, left = item_end(t, i) - off, word;

    if (!items_resolve(t, i, &word, err))
        return false;
    out->len = n < left ? n : left;
    if (word & IN_FILE) {
        out->src = t->file;
        out->off = (word >> 2) + into;
    } else {
        out->src = item_made_of(word)->src;
        out->off = into;
    }
    return true;
}

static bool items_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    struct items *t = (struct items *)s;
    char *to = buf;

    while (n > 0) {
        struct items_part p;

        if (!items_part_at(t, off, n, &p, err) ||
            !zf_source_pread(p.src, to, (size_t)p.len, p.off, err))
            return false;
        to += p.len;
        off += p.len;
        n -= (size_t)p.len;
    }
    return true;
}

static bool items_preadv(struct zf_source *s, const struct iovec *iov, int n_iov, uint64_t off,
                         struct zf_err *err)
{
    struct items *t = (struct items *)s;
    struct items_part p;
    uint64_t n = 0;

    for (int i = 0; i < n_iov; i++)
        n += iov[i].iov_len;
    if (!items_part_at(t, off, n, &p, err))
        return false;
    if (p.len == n)
        return zf_source_preadv(p.src, iov, n_iov, p.off, err);
    for (int i = 0; i < n_iov; i++) {
        if (!items_pread(s, iov[i].iov_base, iov[i].iov_len, off, err))
            return false;
        off += iov[i].iov_len;
    }
    return true;
}

static bool items_origin(struct zf_source *s, uint64_t *off, struct zf_source **parent_out)
{
    struct zf_err err;
    struct items_part p;

    if (*off >= s->size || !items_part_at((struct items *)s, *off, 1, &p, &err))
        return false;
    *off = p.off;
    *parent_out = p.src;
    return true;
}

static bool items_trace(struct zf_source *s, struct zf_trace *t)
{
    struct items *it = (struct items *)s;
    struct zf_err err;
    struct items_part p;

    /* A compressed stream must lie in one item as a whole. */
    uint64_t want = t->codec ? t->packed : t->len;

    if (t->off >= s->size || !items_part_at(it, t->off, want, &p, &err) ||
        (t->codec && p.len < want))
        return false;
    t->src = p.src;
    t->off = p.off;
    t->len = t->codec ? t->len : p.len;
    return true;
}

static struct zf_source *items_only(const struct zf_source *s)
{
    return ((const struct items *)s)->file;
}

/* Items are not located ahead of need, because that reads.  The bytes of one not located yet follow
 * its record's header, so a little more than its length is fetched from there. */
#define WANT_MORE (64u << 10)

static void items_want(struct zf_source *s, uint64_t off, uint64_t n, enum zf_prefetch how)
{
    struct items *t = (struct items *)s;

    for (size_t i = items_find(t, off); n > 0 && i < t->n; i++) {
        uint64_t into = off - t->item[i].addr, left = item_end(t, i) - off;
        uint64_t k = n < left ? n : left;
        uint64_t word = atomic_load_explicit(&t->item[i].data, memory_order_acquire);

        if ((word & TAGS) == NOT_YET) {
            if (t->file)
                zf_source_want(t->file, (word >> 2) + into, k + WANT_MORE, how);
        } else if (word & IN_FILE) {
            zf_source_want(t->file, (word >> 2) + into, k, how);
        } else {
            zf_source_want(item_made_of(word)->src, into, k, how);
        }
        off += k;
        n -= k;
    }
}

static void items_fini(struct zf_source *s)
{
    struct items *t = (struct items *)s;

    for (size_t i = 0; i < t->n; i++)
        items_word_drop(atomic_load_explicit(&t->item[i].data, memory_order_relaxed));
    free(t->item);
    if (t->ctx_free)
        t->ctx_free(t->ctx);
    zf_source_unref(&t->file);
    zf_source_fini(s);
    free(t);
}

/* Writes each item's length and word; an item with a source of its own is located again later. */
static bool items_recipe(struct zf_source *s, struct zf_recipe *out)
{
    struct items *t = (struct items *)s;

    if (!t->recipe || !t->recipe(t->ctx, out))
        return false;
    out->parent = t->file;
    zf_out_var(&out->bytes, t->n);
    for (size_t i = 0; i < t->n; i++) {
        const uint64_t word = atomic_load_explicit(&t->item[i].data, memory_order_acquire);

        zf_out_var(&out->bytes, item_end(t, i) - t->item[i].addr);
        zf_out_var(&out->bytes, word & TAGS ? word : item_made_of(word)->rec_off << 2 | NOT_YET);
    }
    return true;
}

static const struct zf_source_ops items_ops = {
    .kind = "items",
    .pread = items_pread,
    .preadv = items_preadv,
    .origin = items_origin,
    .trace = items_trace,
    .only = items_only,
    .want = items_want,
    .recipe = items_recipe,
    .fini = items_fini,
};

struct zf_source *zf_items_new(struct zf_source *file, zf_item_locate_fn *locate_fn, void *ctx,
                               void (*ctx_free)(void *), struct zf_err *err)
{
    struct items *t = zf_source_new(sizeof *t, &items_ops, file ? file->name : "", 0, err);

    if (!t)
        return NULL;
    t->file = zf_source_ref(file);
    t->gate = file ? zf_source_shared(file).gate : NULL;
    t->locate = locate_fn;
    t->ctx = ctx;
    t->ctx_free = ctx_free;
    return &t->src;
}

static bool items_resize(struct items *t, size_t cap, struct zf_err *err)
{
    struct item *item = reallocarray(t->item, cap, sizeof *item);

    if (!item)
        return zf_fail_sys(err, "grow a table of items");
    t->item = item;
    t->cap = cap;
    return true;
}

bool zf_items_add(struct zf_source *items, uint64_t rec_off, uint64_t len, uint64_t *addr_out,
                  struct zf_err *err)
{
    struct items *t = (struct items *)items;
    uint64_t end;

    if (rec_off > OFF_MAX)
        return zf_fail(err, ZF_E_LIMIT, rec_off, "an item starts beyond the largest file");
    if (!zf_add(items->size, len, &end))
        return zf_fail(err, ZF_E_LIMIT, rec_off, "the items are larger than 2^64 bytes together");
    if (t->n == t->cap && !items_resize(t, t->cap ? t->cap + t->cap / 2 : 8, err))
        return false;
    struct item *it = &t->item[t->n++];
    it->addr = items->size;
    atomic_init(&it->data, rec_off << 2 | NOT_YET);
    *addr_out = items->size;
    items->size = end;
    return true;
}

void zf_items_seal(struct zf_source *items)
{
    struct items *t = (struct items *)items;
    struct zf_err err;

    /* A failure to shrink is harmless. */
    (void)(t->n && t->n < t->cap && items_resize(t, t->n, &err));
}

void zf_items_recipe(struct zf_source *items, zf_items_recipe_fn *fn)
{
    ((struct items *)items)->recipe = fn;
}

bool zf_items_remake(struct zf_source *items, uint64_t most, struct zf_remake *r,
                     struct zf_err *err)
{
    struct items *t = (struct items *)items;
    uint64_t n = zf_bytes_var(&r->bytes), addr;

    if (r->bytes.bad || n > most || n > zf_bytes_left(&r->bytes))
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "more items than there can be");
    if (!items_resize(t, (size_t)n + 1, err))
        return false;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t len = zf_bytes_var(&r->bytes), word = zf_bytes_var(&r->bytes);
        const bool found = (word & TAGS) == IN_FILE;

        if (r->bytes.bad || (!found && (word & TAGS) != NOT_YET) ||
            (found && (!t->file || !zf_within(word >> 2, len, t->file->size))))
            return zf_fail(err, ZF_E_FORMAT, word >> 2, "an item that cannot be");
        if (!zf_items_add(items, word >> 2, len, &addr, err))
            return false;
        atomic_store_explicit(&t->item[i].data, word, memory_order_relaxed);
    }
    zf_items_seal(items);
    return true;
}

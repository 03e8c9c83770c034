/* SPDX-License-Identifier: Apache-2.0 */
/* Values are allocated from slabs in 8-byte steps and live as long as their arena, unless a caller
 * that processes them during reading no longer needs them (spend.c).  A container has a block of
 * slots; a block that became too small is kept in a list by size and reused.  Every byte is charged
 * before it is allocated, against pickle_memory and against the bytes of the file read so far, so
 * that a short file never gets much memory. */
#include "heap.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <zf/base/num.h>

/* Bytes of a slab.  Slabs have 8-byte steps; the arena alone would round every value up to 16. */
#define SLAB_MIN 1024u
#define SLAB_MAX (256u << 10)
/* An array of this many bytes or more grows by a quarter instead of doubling. */
#define GROW_SLOWLY (1u << 20)
/* The stack's memory is given back in pieces of this many values. */
#define PIECE (128u << 10)

const struct zf_pv pv_none = {.kind = ZF_PV_NONE, .flags = ZF_PV_SHARED};
const struct zf_pv pv_true = {.kind = ZF_PV_BOOL, .flags = ZF_PV_SHARED, .n = 1};
const struct zf_pv pv_false = {.kind = ZF_PV_BOOL, .flags = ZF_PV_SHARED};
const struct zf_pv pv_no_tuple = {.kind = ZF_PV_TUPLE, .flags = ZF_PV_SHARED};
const struct zf_pv pv_no_list = {.kind = ZF_PV_LIST, .flags = ZF_PV_SHARED};
const struct zf_pv pv_no_dict = {.kind = ZF_PV_DICT, .flags = ZF_PV_SHARED};
const struct zf_pv pv_no_set = {.kind = ZF_PV_SET, .flags = ZF_PV_SHARED};

const char *const pv_kind_names[] = {
    [ZF_PV_NONE] = "None",        [ZF_PV_BOOL] = "a bool",
    [ZF_PV_INT] = "an int",       [ZF_PV_BIGINT] = "an int",
    [ZF_PV_FLOAT] = "a float",    [ZF_PV_BYTES] = "bytes",
    [ZF_PV_STR] = "a str",        [ZF_PV_TUPLE] = "a tuple",
    [ZF_PV_LIST] = "a list",      [ZF_PV_DICT] = "a dict",
    [ZF_PV_SET] = "a set",        [ZF_PV_GLOBAL] = "a global",
    [ZF_PV_CALL] = "an object",   [ZF_PV_PERSID] = "a persistent id",
    [ZF_PV_EXT] = "an extension",
};

void pickle_heap_init(struct pickle_heap *h, struct zf_arena *a, const struct zf_limits *lim)
{
    memset(h, 0, sizeof *h);
    h->arena = a;
    h->lim = lim;
    h->slab_next = SLAB_MIN;
    h->max_depth = lim->pickle_depth < UINT16_MAX ? (uint16_t)lim->pickle_depth : UINT16_MAX;
}

bool pickle_heap_charge(struct pickle_heap *h, uint64_t bytes, struct zf_err *err)
{
    if (bytes > h->lim->pickle_memory || h->bytes > h->lim->pickle_memory - bytes) {
        return zf_fail_limit(
            err, ZF_LIMIT_pickle_memory, ZF_OFF_NONE,
            "the values need more memory than the limit pickle_memory allows (%llu bytes)",
            (unsigned long long)h->lim->pickle_memory);
    }
    uint64_t read = h->in->at - h->start, disk = read < h->stored ? read : h->stored;

    if (h->bytes + bytes > zf_limits_meta(h->lim, disk)) {
        return zf_fail_limit(err, ZF_LIMIT_meta_memory, ZF_OFF_NONE,
                             "the values need more memory than the limits meta_memory=%llu and "
                             "meta_slack=%llu allow for %llu bytes on disk",
                             (unsigned long long)h->lim->meta_memory,
                             (unsigned long long)h->lim->meta_slack, (unsigned long long)disk);
    }
    h->bytes += bytes;
    return true;
}

bool pickle_no_memory(struct zf_err *err)
{
    return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE,
                   "out of memory for the values of a pickle (less than the limit pickle_memory)");
}

void *pickle_heap_grow(struct pickle_heap *h, void *p, uint64_t each, uint64_t *cap,
                       struct zf_err *err)
{
    /* realloc moves large blocks by remapping pages, so small steps cost little. */
    uint64_t more = *cap * each < GROW_SLOWLY ? *cap + 64 : *cap / 4;

    if (!pickle_heap_charge(h, more * each, err))
        return NULL;
    void *larger = realloc(p, (*cap + more) * each);
    if (!larger) {
        (void)pickle_no_memory(err);
        return NULL;
    }
    *cap += more;
    return larger;
}

static void *heap_from_arena(struct pickle_heap *h, uint64_t bytes, struct zf_err *err)
{
    return pickle_heap_charge(h, bytes, err) ? zf_arena_get(h->arena, bytes, 1, err) : NULL;
}

/* Free blocks of at least 2^SPARE_SLAB slots are used as slabs. */
#define SPARE_SLAB 12u

/* Starts the next slab: the largest free block that a container outgrew, or else a new one. */
static bool heap_next_slab(struct pickle_heap *h, struct zf_err *err)
{
    for (unsigned class = ZF_PICKLE_CLASSES; class -- > SPARE_SLAB;) {
        struct pv_items *b = h->spare[class];

        if (b) {
            h->spare[class] = b->at[0].items;
            h->slab_left = b->cap * sizeof b->at[0];
            h->slab = memset(b->at, 0, (size_t)h->slab_left);
            return true;
        }
    }
    uint8_t *slab = heap_from_arena(h, h->slab_next, err);

    if (!slab)
        return false;
    h->slab = slab;
    h->slab_left = h->slab_next;
    h->slab_next = h->slab_next < SLAB_MAX ? h->slab_next * 2 : SLAB_MAX;
    return true;
}

void *pickle_heap_get(struct pickle_heap *h, uint64_t bytes, struct zf_err *err)
{
    uint64_t words = bytes / sizeof(union pv_slot);
    void **spent = words <= ZF_PICKLE_WORDS ? h->spent[words] : NULL;

    if (spent) {
        h->spent[words] = spent[1];
        return memset(spent, 0, (size_t)bytes);
    }
    if (bytes > h->slab_left) {
        if (bytes > h->slab_next / 8)
            return heap_from_arena(h, bytes, err);
        if (!heap_next_slab(h, err))
            return NULL;
    }
    void *p = h->slab;
    h->slab += bytes;
    h->slab_left -= bytes;
    return p;
}

struct zf_pv *pickle_heap_new(struct pickle_heap *h, enum zf_pv_kind kind, uint64_t slots,
                              struct zf_err *err)
{
    if (h->objects >= h->lim->pickle_objects) {
        return zf_null(zf_fail_limit(err, ZF_LIMIT_pickle_objects, ZF_OFF_NONE,
                                     "more values than the limit pickle_objects allows (%llu)",
                                     (unsigned long long)h->lim->pickle_objects));
    }
    if (slots > UINT32_MAX) {
        return zf_null(zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                               "%llu elements in one value are too many",
                               (unsigned long long)slots));
    }
    h->objects++;
    struct zf_pv *v = pickle_heap_get(h, sizeof *v + slots * sizeof v->at[0], err);
    if (v)
        v->kind = (uint8_t)kind;
    return v;
}

struct zf_pv *pickle_heap_int(struct pickle_heap *h, int64_t i, struct zf_err *err)
{
    bool small = i >= 0 && i < 256;

    if (small && h->small[i])
        return h->small[i];
    struct zf_pv *v = pickle_heap_new(h, ZF_PV_INT, 1, err);
    if (v) {
        v->at[0].i = i;
        if (small)
            h->small[i] = v;
    }
    return v;
}

/* The slot of the value that all equal texts share; NULL except for the shortest texts. */
static struct zf_pv **heap_known_text(struct pickle_heap *h, enum zf_pv_kind kind, const char *p,
                                      uint64_t n)
{
    if (kind != ZF_PV_STR || n > 1)
        return NULL;
    return n == 0 ? &h->no_text : p && *p > 0 ? &h->letter[(unsigned char)*p] : NULL;
}

struct zf_pv *pickle_heap_text(struct pickle_heap *h, enum zf_pv_kind kind, const char *p,
                               uint64_t n, struct zf_err *err)
{
    struct zf_pv **known = heap_known_text(h, kind, p, n);

    if (known && *known)
        return *known;
    if (n >= UINT32_MAX) {
        return zf_null(zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "a text of %llu bytes is too long",
                               (unsigned long long)n));
    }
    struct zf_pv *v = pickle_heap_new(h, kind, n / sizeof(union pv_slot) + 1, err);
    if (!v)
        return NULL;
    v->n = (uint32_t)n;
    if (p && n)
        memcpy(pv_chars(v), p, n);
    pv_chars(v)[n] = '\0';
    if (known)
        *known = v;
    return v;
}

static unsigned heap_log2_floor(uint64_t n)
{
    return 63u - (unsigned)__builtin_clzll(n);
}

/* Returns a block of at least `want` slots.  Outgrown blocks are reused, so that the many small
 * containers of a pickle that appends one by one do not waste more memory than they use. */
static struct pv_items *heap_block(struct pickle_heap *h, uint64_t want, struct zf_err *err)
{
    unsigned class = heap_log2_floor(want) + ((want & (want - 1)) != 0);
    struct pv_items *b = class < ZF_PICKLE_CLASSES ? h->spare[class] : NULL;

    if (b) {
        h->spare[class] = b->at[0].items;
    } else {
        uint64_t tail = want >= ZF_PV_INDEXED ? 2 : 0, bytes;
        if (!zf_mul_add(want + tail, sizeof b->at[0], sizeof *b, &bytes)) {
            return zf_null(zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                                   "a container of %llu values is too large",
                                   (unsigned long long)want));
        }
        b = pickle_heap_get(h, bytes, err);
        if (!b)
            return NULL;
        b->cap = want;
    }
    if (b->cap >= ZF_PV_INDEXED) {
        b->at[b->cap].arena = h->arena;
        b->at[b->cap + 1].index = NULL;
    }
    return b;
}

void pickle_heap_recycle(struct pickle_heap *h, struct pv_items *b)
{
    unsigned class = heap_log2_floor(b->cap);

    if (class < ZF_PICKLE_CLASSES) {
        b->at[0].items = h->spare[class];
        h->spare[class] = b;
    }
}

/* The slot that holds a container's block. */
static struct pv_items **heap_items_of(struct pickle_heap *h, struct zf_pv *v, struct zf_err *err)
{
    if (v->kind != ZF_PV_CALL)
        return &v->at[0].items;
    struct pv_more *more = pickle_heap_more(h, v, err);
    return more ? &more->items : NULL;
}

/* Returns the memory of a piece of the stack to the system; its contents are gone. */
static void heap_release(struct zf_pv *const *piece)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), lo = (uintptr_t)piece,
              hi = lo + PIECE * sizeof *piece;

    lo = (lo + page - 1) / page * page;
    (void)madvise((void *)lo, hi / page * page - lo, MADV_DONTNEED);
}

bool pickle_heap_fill(struct pickle_heap *h, struct zf_pv *to, union pv_slot *at,
                      struct zf_pv *const *from, uint64_t n, struct zf_err *err)
{
    for (uint64_t i = 0; i < n; i++) {
        if (!pickle_heap_holds(h, to, from[i], err))
            return false;
        at[i].v = from[i];
        if ((i + 1) % PIECE == 0)
            heap_release(from + i + 1 - PIECE);
    }
    return true;
}

bool pickle_heap_add(struct pickle_heap *h, struct zf_pv *to, struct zf_pv *const *from,
                     uint64_t slots, struct zf_err *err)
{
    bool pairs = to->kind == ZF_PV_DICT || (to->flags & ZF_PV_MAP);
    uint64_t have = pairs ? 2ull * to->n : to->n, need = have + slots;
    struct pv_items **items = heap_items_of(h, to, err);

    if (!items)
        return false;
    if (need > UINT32_MAX) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "%llu values in one container are too many",
                       (unsigned long long)need);
    }
    if (slots == 0)
        return true;
    struct pv_items *b = *items;
    if (!b || need > b->cap) {
        /* The first batch gets exactly the room it needs: most containers get no second one. */
        uint64_t cap = !b || need > 2 * b->cap ? need : 2ull << heap_log2_floor(need - 1);
        struct pv_items *larger = heap_block(h, cap, err);
        if (!larger)
            return false;
        if (b) {
            memcpy(larger->at, b->at, have * sizeof b->at[0]);
            pickle_heap_recycle(h, b);
        }
        *items = b = larger;
    }
    if (!pickle_heap_fill(h, to, b->at + have, from, slots, err))
        return false;
    to->n = (uint32_t)(pairs ? need / 2 : need);
    return true;
}

struct pv_more *pickle_heap_more(struct pickle_heap *h, struct zf_pv *call, struct zf_err *err)
{
    if (call->flags & ZF_PV_MORE)
        return call->at[1].more;
    struct pv_more *more = pickle_heap_get(h, sizeof *more, err);
    if (more) {
        *more = (struct pv_more){.args = call->at[1].v};
        call->at[1].more = more;
        call->flags |= ZF_PV_MORE;
    }
    return more;
}

bool pickle_heap_too_deep(const struct pickle_heap *h, struct zf_err *err)
{
    return zf_fail_limit(err, ZF_LIMIT_pickle_depth, ZF_OFF_NONE,
                         "values are nested deeper than the limit pickle_depth allows (%u levels)",
                         h->max_depth);
}

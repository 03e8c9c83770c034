/* SPDX-License-Identifier: Apache-2.0 */
/* Sections of two lists whose bytes are the same say the same.  The others are made into pairs of name and text, which
 * are sorted by name and gone through side by side, so that the sentence is about the first name whose texts
 * differ. */
#include "agree_list.h"

#include <stdlib.h>
#include <string.h>

#include <zf/base/arena.h>
#include <zf/base/bytes.h>

struct agree_pair {
    const char *name, *text;
    bool needed;
};

/* A section to be compared, and in the end the values of those that differ. */
struct agree_part {
    const char *key;
    const struct agree_section *of;
};
struct agree_side {
    const struct zf_agree *list;
    struct agree_part *part; /* [list->section.n] sorted by key */
    struct zf_arena *arena;
    zf_vec(struct agree_pair) pair;
};

static int agree_by_key(const void *pa, const void *pb)
{
    const struct agree_part *a = pa, *b = pb;
    int c = strcmp(a->key, b->key);

    return c ? c : (a->of > b->of) - (a->of < b->of);
}

static bool agree_side_init(struct agree_side *s, const struct zf_agree *list, struct zf_err *err)
{
    const size_t n = list->section.n;

    s->list = list;
    s->part = malloc((n + 1) * sizeof *s->part);
    s->arena = zf_arena_new(list->budget, err);
    if (!s->part)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const struct agree_section *of = &list->section.at[i];

        s->part[i] = (struct agree_part){list->bytes.p + of->at + 1, of};
    }
    qsort(s->part, n, sizeof *s->part, agree_by_key);
    return s->arena != NULL;
}

static void agree_side_fini(struct agree_side *s)
{
    free(s->part);
    zf_arena_free(s->arena);
    zf_vec_fini(&s->pair);
}

/* Makes the values of a section into pairs. */
static bool agree_unfold(struct agree_side *s, const struct agree_part *part, struct zf_err *err)
{
    const char *at = s->list->bytes.p + part->of->at;
    struct zf_bytes b = zf_bytes_of(at, part->of->n);
    const bool needed = zf_bytes_u8(&b) != 0;
    zf_auto(out) struct zf_out name = {0};

    zf_out_str(&name, part->key);
    (void)zf_bytes_take(&b, strlen(part->key) + 1);
    while (zf_bytes_left(&b) > 0) {
        zf_out_cut(&name, zf_bytes_var(&b));
        uint64_t n;
        const char *more = zf_bytes_counted(&b, &n);
        zf_out_add(&name, more, n);
        more = zf_bytes_counted(&b, &n);
        const char *text = zf_arena_str(s->arena, more, n, err);
        const char *copy = text ? zf_arena_str(s->arena, zf_out_text(&name), name.n, err) : NULL;
        struct agree_pair *p = copy ? zf_vec_push(&s->pair, err) : NULL;

        if (!p || !zf_out_ok(&name, err))
            return false;
        *p = (struct agree_pair){.name = copy, .text = text, .needed = needed};
    }
    return true;
}

static bool agree_same_section(const struct agree_side *a, const struct agree_section *i,
                               const struct agree_side *b, const struct agree_section *k)
{
    return i->n == k->n &&
           memcmp(a->list->bytes.p + i->at, b->list->bytes.p + k->at, (size_t)i->n) == 0;
}

/* Makes pairs of what is not the same in both.  shared: nor of what only one of them names. */
static bool agree_unfold_others(struct agree_side *a, struct agree_side *b, bool shared,
                                struct zf_err *err)
{
    const size_t n = a->list->section.n, m = b->list->section.n;

    for (size_t i = 0, k = 0; i < n || k < m;) {
        const struct agree_part *p = i < n ? &a->part[i] : NULL, *q = k < m ? &b->part[k] : NULL;
        const int c = !p ? 1 : !q ? -1 : strcmp(p->key, q->key);

        if (c == 0 ? !agree_same_section(a, p->of, b, q->of) : !shared) {
            if ((c <= 0 && !agree_unfold(a, p, err)) || (c >= 0 && !agree_unfold(b, q, err)))
                return false;
        }
        i += c <= 0;
        k += c >= 0;
    }
    return true;
}

static int agree_by_name(const void *pa, const void *pb)
{
    const struct agree_pair *a = pa, *b = pb;
    int c = strcmp(a->name, b->name);

    return c ? c : strcmp(a->text, b->text);
}

/* Only one of the files names it. */
static bool agree_one_sided(const struct zf_agree *g, const struct zf_agree *first,
                            const struct agree_pair *p, bool mine, struct zf_err *err)
{
    if (mine) {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "%.120s is %.40s, but is not in \"%.100s\": two saves are mixed", p->name, p->text,
                first->file);
    } else {
        zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                "%.120s is missing, but %.40s in \"%.100s\": two saves are mixed", p->name, p->text,
                first->file);
    }
    return zf_err_in(err, "%s", g->file);
}

/* Goes through both lists of pairs side by side. */
static bool agree_compare_pairs(struct agree_side *mine, struct agree_side *other, bool shared,
                                struct zf_err *err)
{
    const struct zf_agree *g = mine->list, *first = other->list;

    if (mine->pair.n > 0)
        qsort(mine->pair.at, mine->pair.n, sizeof *mine->pair.at, agree_by_name);
    if (other->pair.n > 0)
        qsort(other->pair.at, other->pair.n, sizeof *other->pair.at, agree_by_name);
    for (size_t i = 0, k = 0; i < mine->pair.n || k < other->pair.n;) {
        const struct agree_pair *a = i < mine->pair.n ? &mine->pair.at[i] : NULL;
        const struct agree_pair *b = k < other->pair.n ? &other->pair.at[k] : NULL;
        int c = !a ? 1 : !b ? -1 : strcmp(a->name, b->name);

        if (c != 0 && !shared && (c < 0 ? a : b)->needed)
            return agree_one_sided(g, first, c < 0 ? a : b, c < 0, err);
        if (c == 0 && strcmp(a->text, b->text) != 0) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "%.110s is %.40s, but %.40s in \"%.90s\": two saves are mixed", a->name,
                    a->text, b->text, first->file);
            return zf_err_in(err, "%s", g->file);
        }
        i += c <= 0;
        k += c >= 0;
    }
    return true;
}

bool zf_agree_compare(const struct zf_agree *g, const struct zf_agree *first, bool shared,
                      struct zf_err *err)
{
    struct agree_side mine = {0}, other = {0};

    if (g->bytes.n == first->bytes.n &&
        (g->bytes.n == 0 || memcmp(g->bytes.p, first->bytes.p, g->bytes.n) == 0))
        return true;
    bool ok = agree_side_init(&mine, g, err) && agree_side_init(&other, first, err) &&
              agree_unfold_others(&mine, &other, shared, err) &&
              agree_compare_pairs(&mine, &other, shared, err);
    agree_side_fini(&mine);
    agree_side_fini(&other);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Directory listings, as a kind of store fills them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/name.h>
#include <zf/base/vec.h>

#include "store_table.h"

bool zf_listing_add(struct zf_listing *l, const struct zf_entry *e, struct zf_err *err)
{
    if (l->n >= l->limit) {
        return zf_fail_limit(err, ZF_LIMIT_dir_entries, ZF_OFF_NONE,
                             "the directory has more than %" PRIu64 " entries (limit dir_entries)",
                             l->limit);
    }
    struct zf_entry *grown = zf_vec_grow(l->entry, l->n, 1, &l->cap, sizeof *grown, err);
    const char *name = grown ? zf_arena_str(l->names, e->name, strlen(e->name), err) : NULL;
    l->entry = grown ? grown : l->entry;
    if (!name)
        return false;
    l->entry[l->n] = *e;
    l->entry[l->n].place = (uint32_t)l->n;
    l->entry[l->n++].name = name;
    return true;
}

static int listing_order(const void *a, const void *b)
{
    const struct zf_entry *x = a, *y = b;

    return zf_name_cmp(x->name, strlen(x->name), y->name, strlen(y->name));
}

bool listing_read(struct store_table *t, const char *dir, const struct kept *was,
                  struct zf_listing *l, struct zf_err *err)
{
    *l = (struct zf_listing){
        .limit = t->lim.dir_entries, .again = was != NULL, .names_do = was && !was->relied};
    l->names = zf_arena_new(UINT64_MAX, err); /* bounded by the number of entries */
    if (!l->names || !t->ops->list(t->self, dir, l, err)) {
        listing_fini(l);
        return false;
    }
    return true;
}

void listing_sort(struct zf_listing *l)
{
    if (l->n)
        qsort(l->entry, l->n, sizeof *l->entry, listing_order);
}

struct zf_entry *listing_find(const struct zf_entry *entry, size_t n, const char *name)
{
    const struct zf_entry key = {.name = name};

    return n ? (struct zf_entry *)bsearch(&key, entry, n, sizeof *entry, listing_order) : NULL;
}

void listing_fini(struct zf_listing *l)
{
    zf_arena_free(l->names);
    free(l->entry);
    l->names = NULL;
    l->entry = NULL;
}

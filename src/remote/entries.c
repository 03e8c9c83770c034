/* SPDX-License-Identifier: Apache-2.0 */
#include "entries.h"

#include <inttypes.h>
#include <string.h>

#include <zf/base/hash.h>

bool entries_init(struct entries *e, const struct zf_limits *lim, struct zf_err *err)
{
    *e = (struct entries){.most = lim->dir_entries};
    e->text = zf_arena_new(UINT64_MAX, err); /* bounded by the bytes of the listing */
    return e->text != NULL;
}

void entries_fini(struct entries *e)
{
    zf_arena_free(e->text);
    zf_index_fini(&e->by_name);
    zf_vec_fini(e);
    *e = (struct entries){.text = NULL};
}

/* One component, and no other than it looks like. */
static bool entries_name_ok(const char *name, size_t n)
{
    return n > 0 && !memchr(name, '\0', n) && !memchr(name, '/', n) &&
           !(n <= 2 && memcmp(name, "..", n) == 0);
}

static struct entry *entries_same(const struct entries *e, uint64_t hash, const char *name,
                                  size_t n)
{
    uint64_t at = 0;
    uint32_t i;

    while ((i = zf_index_next(&e->by_name, hash, &at)) != ZF_INDEX_NONE) {
        if (strncmp(e->at[i].name, name, n) == 0 && e->at[i].name[n] == '\0') {
            return &e->at[i];
        }
    }
    return NULL;
}

const struct entry *entries_find(const struct entries *e, const char *name)
{
    return entries_same(e, zf_hash(0, name, strlen(name)), name, strlen(name));
}

/* The name is there already: is it the same thing? */
static bool entries_again(struct entry *was, const struct entry *is, struct zf_err *err)
{
    if (was->dir != is->dir) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the listing has \"%.100s\" as a file and as a directory", was->name);
    }
    if (was->sized && is->sized && was->size != is->size) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the listing has \"%.100s\" twice, of %" PRIu64 " and of %" PRIu64 " bytes",
                       was->name, was->size, is->size);
    }
    if (is->sized) {
        was->sized = true;
        was->size = is->size;
    }
    return true;
}

static bool entries_put(struct entries *e, uint64_t hash, const struct entry *what, size_t n,
                        struct zf_err *err)
{
    struct entry *to = zf_vec_push(e, err);

    if (!to) {
        return false;
    }
    *to = *what;
    to->name = zf_arena_str(e->text, what->name, n, err);
    return to->name && zf_index_add(&e->by_name, hash, (uint32_t)(e->n - 1), err);
}

bool entries_add(struct entries *e, const struct entry *what, size_t n, struct zf_err *err)
{
    if (!entries_name_ok(what->name, n)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the listing has an entry \"%.*s\", which is no file name",
                       n < 100 ? (int)n : 100, what->name);
    }
    uint64_t hash = zf_hash(0, what->name, n);
    struct entry *was = entries_same(e, hash, what->name, n);
    if (was) {
        return entries_again(was, what, err);
    }
    if (e->n >= e->most) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                       "the listing has more than %" PRIu64 " entries (limit dir_entries)",
                       e->most);
    }
    return entries_put(e, hash, what, n, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sources.h"

struct source_number {
    UT_hash_handle hh; /* key: the address */
    uint32_t number;
};

bool sources_init(struct sources *t, struct zf_err *err)
{
    static const char *const why[] = {"no piece covers this byte",
                                      "several pieces cover this byte"};

    if (!zf_vec_push(t, err))
        return false;
    for (uint32_t i = SOURCES_NONE; i < SOURCES_FILES; i++) {
        zf_auto(source) struct zf_source *s = zf_lost_new(UINT64_MAX, why[i - SOURCES_NONE], err);
        uint32_t number;

        if (!s || !sources_add(t, s, &number, err))
            return false;
    }
    return true;
}

bool sources_add(struct sources *t, struct zf_source *s, uint32_t *out, struct zf_err *err)
{
    *out = SOURCES_ZEROS;
    if (!s)
        return true;
    if (t->n >= UINT32_MAX)
        return zf_table_full(UINT32_MAX, err);
    struct source_number *e =
        zf_vec_room(t, 1, err) ? zf_table_make_id(t->numbers, (uintptr_t)s, err) : NULL;
    if (!e || e->number) {
        *out = e ? e->number : 0;
        return e != NULL;
    }
    *out = e->number = (uint32_t)t->n;
    t->at[t->n++] = zf_source_ref(s);
    return true;
}

void sources_cut(struct sources *t, uint32_t n)
{
    while (t->n > n) {
        struct zf_source **last = &t->at[--t->n];

        struct source_number *e = zf_table_find_id(t->numbers, (uintptr_t)*last);
        HASH_DEL(t->numbers, e);
        free(e);
        zf_source_unref(last);
    }
}

void sources_seal(struct sources *t)
{
    zf_table_free(t->numbers);
}

void sources_fini(struct sources *t)
{
    for (size_t i = 1; i < t->n; i++)
        zf_source_unref(&t->at[i]);
    zf_vec_fini(t);
    zf_table_free(t->numbers);
}

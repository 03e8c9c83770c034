/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the tensors and objects in .metadata, whatever the form of its keys: shared by the backends torch_dist and
 * fsdp_dtensor. */
#include "steps.h"

#include <zf/dcp.h>

char *mg_metadata_head(struct zf_store *st, size_t *n)
{
    struct zf_err ignored = {.code = ZF_OK};
    zf_auto(source) struct zf_source *src = zf_store_has(st, ".metadata", ZF_ENTRY_FILE)
                                                ? zf_store_open(st, ".metadata", &ignored)
                                                : NULL;

    *n = src && src->size < *n ? (size_t)src->size : *n;
    return src ? zf_source_slurp(src, 0, *n, &ignored) : NULL;
}

static void dcp_lists_free(void *backend)
{
    zf_dcp_free(backend);
}

static bool dcp_lists_add(struct mg_save *s, struct zf_dcp *d, uint64_t i, mg_parse_fn *parse,
                          struct zf_err *err)
{
    zf_auto(source) struct zf_source *src = NULL;
    struct zf_dcp_key k;
    struct mg_tensor *t;

    if (!zf_dcp_key(d, i, &k, err))
        return false;
    if (k.is_bytes) {
        src = zf_dcp_item(d, i, err);
        struct mg_object *o = src ? mg_save_object(s, k.name, k.name_len, src, err) : NULL;
        if (o)
            o->part = k.group;
        return o != NULL;
    }
    if (!k.draft)
        return true; /* the driver has put it in its place */
    t = mg_save_draft(s, k.name, k.name_len, k.draft, k.cuts, err);
    if (t) {
        parse(t->key, t->key_len, &t->name);
        t->order = i;
    }
    return t != NULL;
}

bool mg_dcp_lists(struct mg_save *s, mg_parse_fn *parse, struct zf_err *err)
{
    struct zf_dcp *d = zf_dcp_new(s->lim, err);

    if (!d)
        return false;
    s->backend = d;
    s->backend_free = dcp_lists_free;
    for (uint32_t i = 0; i < s->n_dirs; i++) {
        zf_dcp_begin(d, (struct zf_dcp_group){0});
        if (!zf_dcp_read(d, s->st, s->dir[i], ".metadata", s->lim, s->b, err))
            return false;
    }
    if (!zf_dcp_draft(d, s->st, s->lim, s->b, err))
        return false;
    for (uint64_t i = 0; i < zf_dcp_n_keys(d); i++)
        if (!dcp_lists_add(s, d, i, parse, err))
            return false;
    return true;
}

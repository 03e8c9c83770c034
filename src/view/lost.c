/* SPDX-License-Identifier: Apache-2.0 */
/* With lost=omit damaged tensors are not in the tree; LOST.json lists them, with the reasons. */
#include "lost.h"

#include <inttypes.h>
#include <string.h>

#include <zf/base/out.h>

#include "tree.h"

/* Most ranges per tensor in LOST.json: a box of columns has one range per row. */
#define MOST_RANGES 32

/* ---- leaving them out ------------------------------------------------------------------------ */

static bool lost_stays(const struct zf_tensor *t, bool damaged)
{
    return !t->apart && !(damaged && t->lost);
}

bool lost_leave_out(const struct zf_set *set, bool damaged, const struct zf_set **out,
                    struct zf_arena *a, struct zf_err *err)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < set->n; i++)
        n += lost_stays(&set->tensor[i], damaged);
    *out = set;
    if (n == set->n)
        return true;
    struct zf_set *left = zf_arena_get(a, 1, sizeof *left, err);
    struct zf_tensor *t = left ? zf_arena_get(a, n, sizeof *t, err) : NULL;
    uint32_t *moved = t ? zf_arena_get(a, set->n, sizeof *moved, err) : NULL;
    if (!moved)
        return false;
    n = 0;
    memset(moved, 0xff, set->n * sizeof *moved);
    for (uint32_t i = 0; i < set->n; i++) {
        if (lost_stays(&set->tensor[i], damaged)) {
            moved[i] = n;
            t[n++] = set->tensor[i];
        }
    }
    /* If a tensor is left out but others tied to it stay, the first of these takes its place. */
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *owner = &moved[t[i].alias_of];

        *owner = *owner == UINT32_MAX ? i : *owner;
        t[i].alias_of = *owner;
    }
    *left = (struct zf_set){.path = set->path, .tensor = t, .n = n};
    *out = left;
    return true;
}

/* ---- LOST.json ------------------------------------------------------------------------------- */

static void lost_put_text(struct zf_out *o, const char *key, const char *text, size_t n)
{
    zf_out_str(o, key);
    zf_out_json(o, text, n);
}

static void lost_put_reason(struct zf_out *o, const struct zf_lost *how)
{
    lost_put_text(o, ",\"file\":", how->file, strlen(how->file));
    lost_put_text(o, ",\"why\":", how->why, strlen(how->why));
}

static void lost_put_ranges(struct zf_out *o, const struct zf_tensor *t)
{
    struct zf_loss loss = {.end = 0};
    uint32_t n = 0;

    zf_out_str(o, ",\"lost_bytes\":[");
    while (zf_map_loss(t->data, loss.end, &loss)) {
        zf_out_str(o, n ? ",\n  " : "\n  ");
        if (n++ == MOST_RANGES) {
            zf_out_str(o, "{\"more\":true}");
            break;
        }
        zf_out_fmt(o, "{\"first\":%" PRIu64 ",\"end\":%" PRIu64, loss.first, loss.end);
        lost_put_reason(o, &loss.how);
        zf_out_u8(o, '}');
    }
    zf_out_u8(o, ']');
}

static void lost_put_head(struct zf_out *o, bool *first, const char *set, const char *name,
                          size_t n)
{
    zf_out_str(o, *first ? "\n" : ",\n");
    lost_put_text(o, " {\"set\":", set, strlen(set));
    lost_put_text(o, ",\"name\":", name, n);
    *first = false;
}

static bool lost_plan_lost(const struct bulk *b, struct bulk_plan *p, struct zf_err *err)
{
    zf_auto(out) struct zf_out o = {0};
    const struct zf_checkpoint *c = b->shard;
    const struct zf_set *set = b->of->set;
    bool first = true;

    zf_out_str(&o, "{\"schema\":\"zerofs.lost/1\",\"lost\":[");
    for (uint32_t i = 0; i < set->n; i++) {
        const struct zf_tensor *t = &set->tensor[i];

        if (t->lost) {
            lost_put_head(&o, &first, set->path, t->name, t->name_len);
            lost_put_ranges(&o, t);
            zf_out_u8(&o, '}');
        }
    }
    for (uint32_t i = 0; !set->path[0] && i < c->n_missing; i++) {
        lost_put_head(&o, &first, "", c->missing[i].name, strlen(c->missing[i].name));
        lost_put_reason(&o, &c->missing[i].how);
        zf_out_u8(&o, '}');
    }
    zf_out_str(&o, "]}\n");
    return zf_out_ok(&o, err) && bulk_add_mem(p, o.p, o.n, err);
}

const struct bulk_kind bulk_lost = {.name = "LOST.json", .plan = lost_plan_lost};

/* ---- why a read failed ----------------------------------------------------------------------- */

/* Are there lost bytes in [from, to) of tensor t's data?  Then they are why the read failed. */
static bool lost_explain(const struct zf_set *set, const struct zf_tensor *t, uint64_t from,
                         uint64_t to, struct zf_err *err)
{
    struct zf_loss loss;

    if (!t->lost || t->filled || !zf_map_loss(t->data, from, &loss) || loss.first >= to)
        return false;
    /* Starts at the beginning of the loss, not of the read: one line in the log, not one per read. */
    struct zf_loss all;
    if (zf_map_loss(t->data, 0, &all) && all.end == loss.end)
        loss = all;
    (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE,
                  "%.120s; bytes %llu to %llu of the tensor \"%s%s%.90s\" are lost", loss.how.why,
                  (unsigned long long)loss.first, (unsigned long long)loss.end - 1, set->path,
                  set->path[0] ? "/" : "", t->name);
    if (loss.how.file[0])
        (void)zf_err_in(err, "%s", loss.how.file);
    return true;
}

static void lost_explain_bulk(const struct bulk *b, uint64_t off, size_t n, struct zf_err *err)
{
    for (uint32_t k = 0; k < b->hurt.n; k++) {
        const struct bulk_hurt *h = &b->hurt.at[k];
        const struct zf_tensor *t = &b->of->set->tensor[h->tensor];
        uint32_t own = zf_dtype_info(t->dtype)->bytes;
        uint64_t from = off > h->first ? (off - h->first) / h->width * own : 0;

        if (off + n <= h->first)
            return;
        uint64_t to = ((off + n - h->first - 1) / h->width + 1) * own;
        if (h->width == own) {
            from = off > h->first ? off - h->first : 0;
            to = off + n - h->first;
        }
        if (from < zf_map_size(t->data) && lost_explain(b->of->set, t, from, to, err))
            return;
    }
}

void tree_explain(const struct spot *s, uint64_t off, size_t n, struct zf_err *err)
{
    if (err->code != ZF_E_IO || n == 0)
        return;
    if (s->shelf) {
        const struct zf_set *set = s->shelf->of->set;
        uint64_t from = shelf_data_byte(s->shelf, s->i, off);
        uint64_t last = shelf_data_byte(s->shelf, s->i, off + n - 1);

        last += zf_dtype_info(set->tensor[s->i].dtype)->bytes - 1;
        (void)lost_explain(set, &set->tensor[s->i], from, last + 1, err);
    } else if (s->node->kind == NODE_BULK) {
        lost_explain_bulk(s->t->bulk.at[s->node->payload], off, n, err);
    }
}

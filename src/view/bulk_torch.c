/* SPDX-License-Identifier: Apache-2.0 */
/* pytorch_model.bin: the set as torch.save would have written it, except that the CRCs of unread
 * payloads are 0; torch.load does not check them, and an export fills them in. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <zf/base/crc.h>
#include <zf/base/utf8.h>
#include <zf/codec/torch_write.h>
#include <zf/codec/zip_write.h>

#include "bulk.h"

/* Can the tensor's name be pickled?  Pickled text must be UTF-8. */
static bool bulk_can_be_told(const struct zf_tensor *t)
{
    return zf_utf8_valid(t->name, t->name_len);
}

/* Numbers the storages: tied names share that of the first one, whose number is its position among those written. */
static bool bulk_number(const struct bulk *b, uint64_t *key, struct zf_out *pickle)
{
    const struct zf_set *set = b->of->set;
    uint64_t next = 0;

    zf_torch_write_begin(pickle);
    for (uint32_t i = 0; i < set->n; i++)
        if (bulk_can_be_told(&set->tensor[i]) && key[set->tensor[i].alias_of] == 0)
            key[set->tensor[i].alias_of] = ++next;
    for (uint32_t i = 0; i < set->n; i++) {
        const struct zf_tensor *t = &set->tensor[i];

        if (bulk_can_be_told(t)) {
            zf_torch_write_tensor(pickle, &(struct zf_torch_write){
                                              .name = t->name,
                                              .name_len = t->name_len,
                                              .dtype = shelf_set_dtype(b->of, i, b->cast),
                                              .ndim = t->ndim,
                                              .shape = t->shape,
                                              .storage = key[t->alias_of] - 1,
                                          });
        }
    }
    zf_torch_write_end(pickle);
    return !pickle->bad;
}

/* Adds a member whose bytes are in memory. */
static void bulk_add_small(struct zf_zip_write *w, struct zf_out *o, const char *name,
                           const void *p, size_t n)
{
    zf_zip_write_member(w, name, n, zf_crc32(0, p, n), o);
    zf_out_add(o, p, n);
}

static bool bulk_flush(struct bulk_plan *p, struct zf_out *o, struct zf_err *err)
{
    bool ok = zf_out_ok(o, err) && bulk_add_mem(p, o->p, o->n, err);

    o->n = 0;
    return ok;
}

/* The alignment of a payload: a page of a mapping that contains a lost byte cannot be read, so damaged
 * data shares no page with its neighbours.  (Pages larger than the possible padding of a zip member are
 * shared.) */
static uint32_t bulk_payload_align(bool hurt)
{
    uint64_t page = bulk_page_end(1);

    return hurt && page <= 32768 ? (uint32_t)page : 0;
}

/* Adds a member whose bytes were not read: its CRC is 0, and its position is noted if wanted; the position in the
 * directory is relative to the directory's start. */
static bool bulk_add_unread(struct bulk_plan *p, struct zf_zip_write *w, struct zf_out *o,
                            const char *name, uint64_t size, struct zf_err *err)
{
    const uint64_t header = w->at, entry = w->central.n;

    zf_zip_write_member(w, name, size, 0, o);
    struct zf_sum *s = p->sums && size ? zf_vec_push(p->sums, err) : NULL;

    if (s) {
        *s = (struct zf_sum){.first = w->at - size,
                             .n = size,
                             .at = {header + ZF_ZIP_CRC_LOCAL, entry + ZF_ZIP_CRC_CENTRAL}};
    }
    return s || !p->sums || !size;
}

static bool bulk_add_payloads(const struct bulk *b, struct bulk_plan *p, struct zf_zip_write *w,
                              struct zf_out *o, const uint64_t *key, struct zf_err *err)
{
    const struct zf_set *set = b->of->set;
    bool hurt_before = false;

    for (uint32_t i = 0; i < set->n; i++) {
        bool hurt = set->tensor[i].lost && !set->tensor[i].filled;
        const uint64_t size = shelf_set_bytes(b->of, i, b->cast);
        char name[48];

        if (set->tensor[i].alias_of != i || key[i] == 0)
            continue;
        (void)snprintf(name, sizeof name, "archive/data/%" PRIu64, key[i] - 1);
        w->align = bulk_payload_align(hurt || hurt_before);
        hurt_before = hurt;
        if (!bulk_add_unread(p, w, o, name, size, err) || !bulk_flush(p, o, err) ||
            !bulk_add_tensor(p, b->of, i, b->cast, err))
            return false;
    }
    return true;
}

/* Distance between lost bytes and the archive's directory: readers find it by reading backwards from the end,
 * 4 KiB or 64 KiB at a time, and in a mapping it shares a page with the tensor before it. */
#define GAP 65536

static bool bulk_add_gap(struct zf_zip_write *w, struct zf_out *o, struct zf_err *err)
{
    char *zeros = calloc(1, GAP);

    if (!zeros)
        return zf_fail_sys(err, "plan a file");
    bulk_add_small(w, o, "archive/.gap", zeros, GAP);
    free(zeros);
    return true;
}

static bool bulk_plan(const struct bulk *b, struct bulk_plan *p, struct zf_err *err)
{
    zf_auto(zip_write) struct zf_zip_write w = {0};
    zf_auto(out) struct zf_out pickle = {0}, o = {0};
    uint64_t *key = zf_arena_get(p->arena, b->of->set->n, sizeof *key, err);

    if (!key)
        return false;
    if (!bulk_number(b, key, &pickle))
        return zf_out_ok(&pickle, err);
    bulk_add_small(&w, &o, "archive/data.pkl", pickle.p, pickle.n);
    bulk_add_small(&w, &o, "archive/byteorder", "little", 6);
    bulk_add_small(&w, &o, "archive/version", "3\n", 2);
    if (!bulk_add_payloads(b, p, &w, &o, key, err))
        return false;
    w.align = 0;
    if (p->lost && !bulk_add_gap(&w, &o, err))
        return false;
    for (size_t i = 0; p->sums && i < p->sums->n; i++)
        p->sums->at[i].at[1] += w.at;
    zf_zip_write_end(&w, &o);
    return bulk_flush(p, &o, err);
}

const struct bulk_kind bulk_torch = {.name = "pytorch_model.bin", .plan = bulk_plan};

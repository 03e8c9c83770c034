/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/pieces.h>

#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/table.h>

/* A part found in a file. */
struct pieces_part {
    UT_hash_handle hh; /* key: a hash of the tensor and the range */
    const char *path;  /* NULL: no file so far */
    struct zf_tensor_ref of;
};

void zf_pieces_fini(struct zf_pieces *p)
{
    zf_copy_check_fini(&p->copies);
    zf_table_free(p->part);
}

static bool pieces_differ(struct zf_spot spot, const char *how, const char *from,
                          struct zf_err *err)
{
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%s%s%.120s\" %s %.120s: two saves are mixed",
                   spot.set, *spot.set ? "/" : "", spot.name, how, from);
}

/* Is x a copy of a part that another file had?  If not, records it. */
static bool pieces_is_copy(struct zf_pieces *p, const struct zf_draft *d, const struct zf_piece *x,
                           bool *out, struct zf_err *err)
{
    const uint64_t key = zf_hash(zf_hash_address(d), x->place, x->n_place * sizeof *x->place);
    struct pieces_part *part = zf_table_make_id(p->part, key, err);
    bool same = true;

    if (!part)
        return false;
    *out = part->path != NULL;
    if (!*out) {
        part->path = x->path;
        part->of = *x->of;
        return true;
    }
    p->copies.all = zf_build_records_copies(p->b);
    return zf_copy_check_equal(&p->copies, &part->of, x->of, &same, err) &&
           (same || pieces_differ(x->spot, "should be a copy, but differs from the one in",
                                  part->path, err));
}

bool zf_pieces_begin(struct zf_pieces *p, const struct zf_piece *x, struct zf_draft **out,
                     struct zf_err *err)
{
    struct zf_draft *d = zf_build_find(p->b, x->spot);
    bool copy = false;

    *out = NULL;
    if (d && !zf_type_equal(x->type, zf_draft_type(d)))
        return pieces_differ(x->spot, "has another dtype or shape than in", "other files", err);
    if (!d &&
        (!(d = zf_build_tensor(p->b, x->spot, x->type, err)) || !zf_draft_where(d, x->path, err)))
        return false;
    if (x->of && !pieces_is_copy(p, d, x, &copy, err))
        return false;
    *out = copy ? NULL : d;
    return true;
}

bool zf_pieces_number(struct zf_pieces *p, struct zf_spot spot, enum zf_dtype dtype,
                      const void *value, struct zf_err *err)
{
    struct zf_draft *d = zf_build_find(p->b, spot);
    unsigned char other[16];

    if (!d)
        return zf_build_scalar(p->b, spot, dtype, value, err);
    if (!zf_type_equal(zf_draft_type(d), (struct zf_type){.dtype = dtype}))
        return pieces_differ(spot, "has another dtype than in", "other files", err);
    return zf_draft_read(d, 0, 1, other, err) &&
           (memcmp(other, value, zf_dtype_info(dtype)->bytes) == 0 ||
            pieces_differ(spot, "differs from that in", "other files", err));
}

bool zf_pieces_end(const struct zf_pieces *p, struct zf_err *err)
{
    return zf_copy_check_note(&p->copies, p->b, err);
}

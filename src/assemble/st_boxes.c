/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/st_boxes.h>

#include <string.h>

#include <zf/base/hash.h>
#include <zf/codec/jsonin.h>

struct boxes_reading {
    struct zf_jsonin *in;
    struct zf_arena *a;
    struct zf_st_boxes *out;
    zf_vec(uint64_t) start; /* of the box that is being read */
};

void zf_st_boxes_fini(struct zf_st_boxes *b)
{
    HASH_CLEAR(hh, b->box); /* what is in it is the arena's */
}

/* Reads a list of numbers; whether it has one per dimension is checked when it is used. */
static bool boxes_read_offsets(struct boxes_reading *r, struct zf_st_box *box, struct zf_err *err)
{
    uint32_t list = zf_jsonin_enter(r->in, ZF_JSON_ARRAY);

    box->given = box->sizes = true;
    r->start.n = 0;
    while (zf_jsonin_next(r->in, list)) {
        bool integer = zf_jsonin_value(r->in) == ZF_JSON_INTEGER;
        int64_t v = integer ? zf_jsonin_integer(r->in) : 0;

        box->sizes = box->sizes && integer && v >= 0;
        box->inner = box->inner || v != 0;
        if (!zf_vec_room(&r->start, 1, err))
            return false;
        r->start.at[r->start.n++] = (uint64_t)v;
    }
    box->start = zf_arena_copy(r->a, r->start.at, r->start.n, sizeof *box->start, err);
    box->n = r->start.n;
    return box->start != NULL;
}

/* Reads the value of an entry, after its name. */
static bool boxes_read_box(struct boxes_reading *r, struct zf_err *err)
{
    struct zf_st_boxes *out = r->out;
    size_t n;
    const char *text = zf_jsonin_text(r->in, &n);
    struct zf_st_box *box = zf_arena_get(r->a, 1, sizeof *box, err);

    if (!box || !(box->name = zf_arena_str(r->a, text, n, err)) ||
        !zf_table_add(out->box, box->name, n, box, err))
        return false;
    uint32_t object = zf_jsonin_enter(r->in, ZF_JSON_OBJECT);
    while (zf_jsonin_next(r->in, object)) {
        if (zf_jsonin_is(r->in, "saved_offsets")) {
            if (!boxes_read_offsets(r, box, err))
                return false;
        } else if (zf_jsonin_is(r->in, "logical_fqn") && zf_jsonin_string(r->in)) {
            text = zf_jsonin_text(r->in, &n);
            if (!(box->whole = zf_arena_str(r->a, text, n, err)))
                return false;
        }
    }
    return true;
}

static bool boxes_read(struct boxes_reading *r, struct zf_err *err)
{
    uint32_t top = zf_jsonin_enter(r->in, ZF_JSON_OBJECT);

    while (zf_jsonin_next(r->in, top))
        if (!boxes_read_box(r, err))
            return false;
    return top || zf_fail(err, ZF_E_FORMAT, 0, "DCP_SHARDING_INFO is not a JSON object");
}

bool zf_st_boxes_load(const char *text, const struct zf_limits *lim, struct zf_arena *a,
                      struct zf_st_boxes *out, struct zf_err *err)
{
    zf_auto(jsonin) struct zf_jsonin *in = zf_jsonin_new_text(text, strlen(text), lim, err);
    struct boxes_reading r = {.in = in, .a = a, .out = out};

    if (!in)
        return false;
    bool ok = boxes_read(&r, err);
    zf_vec_fini(&r.start);
    return zf_jsonin_end(in, err) && ok;
}

const struct zf_st_box *zf_st_boxes_find(const struct zf_st_boxes *b, const char *name)
{
    return zf_table_find_str(b->box, name);
}

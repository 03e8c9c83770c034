/* SPDX-License-Identifier: Apache-2.0 */
/* Lost bytes of a degraded checkpoint.  Such a source may start with intact bytes, which come from
 * the truncated file at the same offsets; reads of the rest fail with a message, or give NaN. */
#include <zf/source/source.h>

#include <string.h>

struct lost {
    struct zf_source src;
    struct zf_source *parent; /* NULL when cut is 0 */
    uint64_t cut;             /* offset of the first lost byte, the start of an element */
    struct zf_fill fill;
    bool unshaped;
    char *file;
    char why[];
};

static bool lost_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    const struct lost *l = (const struct lost *)s;
    unsigned char *out = buf;
    uint64_t end = off + n;

    if (end > l->cut && !l->fill.n) {
        (void)zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "%s", l->why);
        return l->file[0] ? zf_err_in(err, "%s", l->file) : false;
    }
    if (off < l->cut) {
        size_t k = end < l->cut ? n : (size_t)(l->cut - off);

        if (!zf_source_pread(l->parent, out, k, off, err))
            return false;
        out += k;
        off += k;
    }
    for (; off < end; off++)
        *out++ = l->fill.byte[(off - l->cut) % l->fill.n];
    return true;
}

/* Bytes before the cut are in the parent; the rest is nowhere. */
static bool lost_origin(struct zf_source *s, uint64_t *off, struct zf_source **parent_out)
{
    const struct lost *l = (const struct lost *)s;

    if (*off >= l->cut)
        return false;
    *parent_out = l->parent;
    return true;
}

static void lost_fini(struct zf_source *s)
{
    struct lost *l = (struct lost *)s;

    zf_source_unref(&l->parent);
    zf_source_fini(s);
    free(l->file);
    free(l);
}

static const struct zf_source_ops lost_ops = {
    .kind = "lost",
    .pread = lost_pread,
    .origin = lost_origin,
    .fini = lost_fini,
};

struct zf_source *zf_lost_behind(struct zf_source *parent, uint64_t cut, uint64_t size,
                                 const struct zf_lost *how, struct zf_err *err)
{
    size_t n = strlen(how->why) + 1;
    struct lost *l = zf_source_new(sizeof *l + n, &lost_ops, cut ? parent->name : "", size, err);

    if (!l)
        return NULL;
    l->file = strdup(how->file ? how->file : "");
    if (!l->file) {
        (void)zf_fail_sys(err, "note what is lost");
        lost_fini(&l->src);
        return NULL;
    }
    memcpy(l->why, how->why, n);
    l->parent = cut ? zf_source_ref(parent) : NULL;
    l->cut = cut;
    l->fill = how->fill;
    l->unshaped = how->unshaped;
    return &l->src;
}

struct zf_source *zf_lost_new(uint64_t size, const char *why, struct zf_err *err)
{
    return zf_lost_behind(NULL, 0, size, &(struct zf_lost){.why = why}, err);
}

bool zf_source_lost(const struct zf_source *s, uint64_t off, uint64_t *until, struct zf_lost *out)
{
    const struct lost *l = (const struct lost *)s;

    *until = s->size;
    if (s->ops != &lost_ops)
        return false;
    if (off < l->cut) {
        *until = l->cut;
        return false;
    }
    *out =
        (struct zf_lost){.file = l->file, .why = l->why, .unshaped = l->unshaped, .fill = l->fill};
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a tensor by its file name: the suffix is removed, the rest decoded and looked up in the set, and
 * the file name of the result must equal the one asked for.  Shortened names end in a hash of the whole
 * name; those few tensors are in a table sorted by that hash. */
#include "shelf.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/name.h>
#include <zf/base/search.h>
#include <zf/codec/npy.h>
#include <zf/model/cast.h>

/* ---- sets ------------------------------------------------------------------------------------ */

static uint64_t shelf_hash_head(const char *name, size_t n)
{
    uint8_t sum[32];
    uint64_t h = 0;

    zf_sha256(name, n, sum);
    for (int i = 0; i < 8; i++)
        h = h << 8 | sum[i];
    return h;
}

/* Could any suffix make this name too long?  The longest is ".f8_e4m3fnuz"; %XX triples a byte. */
static bool shelf_may_be_cut(const struct zf_tensor *t)
{
    char file[ZF_NAME_MAX + 1];

    return t->name_len > (ZF_NAME_MAX - 16) / 3 &&
           zf_name_encode(file, t->name, t->name_len, "") > ZF_NAME_MAX - 16;
}

static int shelf_cmp_long(const void *a, const void *b)
{
    const struct long_name *x = a, *y = b;

    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

static bool shelf_find_longs(struct shelf_set *out, struct zf_arena *a, struct zf_err *err)
{
    const struct zf_set *set = out->set;
    uint32_t n = 0;

    for (uint32_t i = 0; i < set->n; i++)
        n += shelf_may_be_cut(&set->tensor[i]);
    if (n == 0)
        return true;
    out->longs = zf_arena_get(a, n, sizeof *out->longs, err);
    if (!out->longs)
        return false;
    for (uint32_t i = 0; i < set->n; i++) {
        const struct zf_tensor *t = &set->tensor[i];

        if (shelf_may_be_cut(t)) {
            out->longs[out->n_longs++] =
                (struct long_name){.hash = shelf_hash_head(t->name, t->name_len), .tensor = i};
        }
    }
    qsort(out->longs, n, sizeof *out->longs, shelf_cmp_long);
    return true;
}

static bool shelf_count_links(struct shelf_set *out, struct zf_arena *a, struct zf_err *err)
{
    const struct zf_set *set = out->set;
    bool ties = false;

    for (uint32_t i = 0; i < set->n; i++)
        ties = ties || set->tensor[i].alias_of != i;
    if (!ties)
        return true;
    out->links = zf_arena_get(a, set->n, sizeof *out->links, err);
    for (uint32_t i = 0; out->links && i < set->n; i++)
        out->links[set->tensor[i].alias_of]++;
    return out->links != NULL;
}

/* Marks kept tensors by canonical index: tied names are one file, so keeping one of them keeps all. */
static bool shelf_mark_kept(struct shelf_set *out, const struct zf_view_opts *o, struct zf_arena *a,
                            struct zf_err *err)
{
    if (o->n_keep == 0)
        return true;
    out->keep = zf_arena_get(a, out->set->n / 8 + 1, 1, err);
    for (uint32_t i = 0; out->keep && i < out->set->n; i++) {
        const struct zf_tensor *t = &out->set->tensor[i];

        for (uint32_t k = 0; k < o->n_keep; k++)
            if (fnmatch(o->keep[k], t->name, 0) == 0)
                out->keep[t->alias_of / 8] |= (uint8_t)(1u << t->alias_of % 8);
    }
    return out->keep != NULL;
}

bool shelf_set_init(struct shelf_set *out, const struct zf_set *set, const struct zf_view_opts *o,
                    struct zf_arena *a, struct zf_err *err)
{
    *out = (struct shelf_set){.set = set};
    return shelf_find_longs(out, a, err) && shelf_count_links(out, a, err) &&
           shelf_mark_kept(out, o, a, err);
}

enum zf_dtype shelf_set_dtype(const struct shelf_set *ss, uint32_t i, enum zf_dtype cast)
{
    enum zf_dtype own = ss->set->tensor[i].dtype;
    uint32_t k = ss->set->tensor[i].alias_of;
    bool kept = ss->keep && (ss->keep[k / 8] >> k % 8 & 1);

    return cast == ZF_DT_COUNT || kept || !zf_can_cast(own, cast) ? own : cast;
}

uint64_t shelf_set_bytes(const struct shelf_set *ss, uint32_t i, enum zf_dtype cast)
{
    const struct zf_tensor *t = &ss->set->tensor[i];

    return zf_map_size(t->data) / zf_dtype_info(t->dtype)->bytes *
           zf_dtype_info(shelf_set_dtype(ss, i, cast))->bytes;
}

/* ---- types ----------------------------------------------------------------------------------- */

struct npy_as npy_as(enum zf_dtype t)
{
    const struct zf_dtype_info *info = zf_dtype_info(t);

    switch (t) {
    case ZF_DT_BF16:
    case ZF_DT_F8_E4M3:
    case ZF_DT_F8_E5M2:
    case ZF_DT_F8_E4M3FNUZ:
    case ZF_DT_F8_E5M2FNUZ:
    case ZF_DT_F8_E8M0:
        return (struct npy_as){.from = t, .to = ZF_DT_F32, .descr = "<f4"};
    case ZF_DT_C32:
        return (struct npy_as){.from = ZF_DT_F16, .to = ZF_DT_F32, .descr = "<c8"};
    default:
        return (struct npy_as){.from = t, .to = t, .descr = info->npy};
    }
}

enum zf_dtype shelf_dtype(const struct shelf *s, uint32_t i)
{
    return shelf_set_dtype(s->of, i, s->cast);
}

static uint64_t shelf_npy_head(const struct shelf *s, uint32_t i, char head[ZF_NPY_MAX])
{
    const struct zf_tensor *t = &s->of->set->tensor[i];

    return zf_npy_header(head, npy_as(shelf_dtype(s, i)).descr, t->ndim, t->shape);
}

uint64_t shelf_size(const struct shelf *s, uint32_t i)
{
    const struct npy_as as = npy_as(shelf_dtype(s, i));
    const uint64_t bytes = shelf_set_bytes(s->of, i, s->cast);
    char head[ZF_NPY_MAX];

    return s->kind == SHELF_RAW
               ? bytes
               : shelf_npy_head(s, i, head) +
                     bytes / zf_dtype_info(as.from)->bytes * zf_dtype_info(as.to)->bytes;
}

uint64_t shelf_data_byte(const struct shelf *s, uint32_t i, uint64_t off)
{
    uint64_t own = zf_map_size(s->of->set->tensor[i].data);
    uint64_t size = shelf_size(s, i), width = zf_dtype_info(s->of->set->tensor[i].dtype)->bytes;
    char head[ZF_NPY_MAX];
    uint64_t len = s->kind == SHELF_NPY ? shelf_npy_head(s, i, head) : 0;

    if (off < len || own == 0)
        return 0;
    /* Bytes per element in the file: sizes were checked to be whole elements. */
    uint64_t served = (size - len) / (own / width);
    return served == width ? off - len : (off - len) / served * width;
}

const struct zf_map *shelf_stretch(const struct shelf *s, uint32_t i, uint64_t *off, uint64_t *n)
{
    const struct zf_tensor *t = &s->of->set->tensor[i];
    const uint64_t size = shelf_size(s, i);

    if (*off >= size || *n == 0)
        return NULL;
    const uint64_t end = *n < size - *off ? *off + *n : size;
    const uint64_t first = shelf_data_byte(s, i, *off), last = shelf_data_byte(s, i, end - 1);
    *off = first;
    *n = last - first + zf_dtype_info(t->dtype)->bytes;
    return t->data;
}

uint32_t shelf_links(const struct shelf *s, uint32_t i)
{
    return s->of->links ? s->of->links[s->of->set->tensor[i].alias_of] : 1;
}

/* ---- names ----------------------------------------------------------------------------------- */

static void shelf_suffix_of(const struct shelf *s, uint32_t i, char out[32])
{
    (void)snprintf(out, 32, ".%s",
                   s->kind == SHELF_NPY ? "npy" : zf_dtype_info(shelf_dtype(s, i))->suffix);
}

void shelf_name(const struct shelf *s, uint32_t i, char out[256])
{
    const struct zf_tensor *t = &s->of->set->tensor[i];
    char suffix[32];

    shelf_suffix_of(s, i, suffix);
    (void)zf_name_encode(out, t->name, t->name_len, suffix);
}

static bool shelf_is_name(const struct shelf *s, uint32_t i, const char *name)
{
    char own[ZF_NAME_MAX + 1];

    shelf_name(s, i, own);
    return strcmp(own, name) == 0;
}

static bool shelf_parse_hash(const char *p, uint64_t *out)
{
    char text[17];
    char *end;

    memcpy(text, p, 16);
    text[16] = '\0';
    *out = strtoull(text, &end, 16);
    return *end == '\0';
}

static bool shelf_find_long(const struct shelf *s, const char *name, size_t stem, uint32_t *i_out)
{
    uint64_t hash;
    size_t at;

    if (stem < 17 || name[stem - 17] != '~' || !shelf_parse_hash(name + stem - 16, &hash))
        return false;
    ZF_SEARCH(at, s->of->n_longs, s->of->longs[at].hash >= hash);
    for (; at < s->of->n_longs && s->of->longs[at].hash == hash; at++) {
        if (shelf_is_name(s, s->of->longs[at].tensor, name)) {
            *i_out = s->of->longs[at].tensor;
            return true;
        }
    }
    return false;
}

static bool shelf_find_raw(const struct shelf *s, const char *raw, size_t n, const char *name,
                           uint32_t *i_out)
{
    const struct zf_tensor *t = zf_set_find(s->of->set, raw, n);

    if (!t || !shelf_is_name(s, (uint32_t)(t - s->of->set->tensor), name))
        return false;
    *i_out = (uint32_t)(t - s->of->set->tensor);
    return true;
}

bool shelf_find(const struct shelf *s, const char *name, uint32_t *i_out)
{
    const char *dot = strrchr(name, '.');
    size_t len = strlen(name), stem = dot ? (size_t)(dot - name) : 0, n;
    char raw[ZF_NAME_MAX + 1];

    /* The file of the empty key is "%2Ef32": without a dot, because no file name starts with one. */
    if (!dot)
        return shelf_find_raw(s, "", 0, name, i_out);
    if (len > ZF_NAME_MAX)
        return false;
    if (zf_name_decode(raw, &n, name, stem) && shelf_find_raw(s, raw, n, name, i_out))
        return true;
    return shelf_find_long(s, name, stem, i_out);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static bool shelf_read_data(const struct shelf *s, uint32_t i, void *buf, size_t n, uint64_t off,
                            struct zf_err *err)
{
    const struct zf_tensor *t = &s->of->set->tensor[i];
    enum zf_dtype served = shelf_dtype(s, i);

    if (served == t->dtype)
        return zf_map_read(t->data, buf, n, off, err);
    return zf_map_read_cast(t->data, t->dtype, served, buf, n, off, err);
}

static bool shelf_read_npy_data(const struct shelf *s, uint32_t i, void *buf, size_t n,
                                uint64_t off, struct zf_err *err)
{
    const struct zf_tensor *t = &s->of->set->tensor[i];
    struct npy_as as = npy_as(shelf_dtype(s, i));

    if (as.from == as.to)
        return shelf_read_data(s, i, buf, n, off, err);
    if (shelf_dtype(s, i) == t->dtype)
        return zf_map_read_cast(t->data, as.from, as.to, buf, n, off, err);
    return zf_map_read_cast_by(t->data, (struct zf_cast_by){t->dtype, as.from, as.to}, buf, n, off,
                               err);
}

bool shelf_read(const struct shelf *s, uint32_t i, void *buf, size_t n, uint64_t off,
                struct zf_err *err)
{
    char head[ZF_NPY_MAX];
    uint64_t len = s->kind == SHELF_NPY ? shelf_npy_head(s, i, head) : 0;

    if (s->kind == SHELF_RAW)
        return shelf_read_data(s, i, buf, n, off, err);
    if (off < len) {
        size_t k = len - off < n ? (size_t)(len - off) : n;

        memcpy(buf, head + off, k);
        buf = (char *)buf + k;
        off += k;
        n -= k;
    }
    return n == 0 || shelf_read_npy_data(s, i, buf, n, off - len, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a safetensors header.  The file is a length word, a JSON object, the data.  The reference reader
 * requires that the entries cover the data part without gap or overlap, so they are sorted by offset and
 * each must begin where the previous one ends: a header edited by hand is refused. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/bytes.h>
#include <zf/base/num.h>
#include <zf/base/vec.h>
#include <zf/codec/jsonin.h>
#include <zf/codec/safetensors.h>

/* MAX_HEADER_SIZE of the reference reader. */
#define HEADER_MAX UINT64_C(100000000)
enum { WORD = 8, SHOWN = 80 };

static bool load_bad_entry(struct zf_err *err, const char *name, const char *what)
{
    return zf_fail(err, ZF_E_FORMAT, WORD, "tensor \"%.*s\": %s", SHOWN, name, what);
}

/* ---- reading an entry ---- */

struct load {
    struct zf_jsonin *in;
    struct zf_arena *arena;
    const struct zf_limits *lim;
    zf_vec(struct zf_st_entry) entry;
    zf_vec(const char *) meta_key;
    zf_vec(const char *) meta_val;
    zf_vec(uint64_t) dim; /* shape of the tensor being read */
};

/* State while the keys of a tensor's entry are read, in any order. */
struct load_said {
    bool has_dtype, known_dtype, has_shape, has_pair;
    bool odd; /* an element of the shape is not a size */
    char dtype[SHOWN / 2 + 1];
    uint64_t ndim; /* dimensions; l->dim has only as many as the limit allows */
};

static void load_fini(struct load *l)
{
    zf_vec_fini(&l->entry);
    zf_vec_fini(&l->meta_key);
    zf_vec_fini(&l->meta_val);
    zf_vec_fini(&l->dim);
    zf_jsonin_free(l->in);
}

/* Copies the key or string that was read last. */
static const char *load_copy_text(struct load *l, size_t *n, struct zf_err *err)
{
    const char *text = zf_jsonin_text(l->in, n);

    return zf_arena_str(l->arena, text, *n, err);
}

static void load_dtype(struct load *l, struct load_said *said, struct zf_st_entry *e)
{
    const char *text;

    said->has_dtype = zf_jsonin_string(l->in);
    if (said->has_dtype) {
        text = zf_jsonin_text(l->in, NULL);
        said->known_dtype = zf_dtype_by_safetensors(text, &e->dtype);
        (void)snprintf(said->dtype, sizeof said->dtype, "%s", text);
    }
}

static bool load_shape(struct load *l, struct load_said *said, struct zf_err *err)
{
    uint32_t list = zf_jsonin_enter(l->in, ZF_JSON_ARRAY);

    said->has_shape = list > 0;
    l->dim.n = 0;
    while (zf_jsonin_next(l->in, list)) {
        uint64_t v = 0;

        said->odd = !zf_jsonin_u64(l->in, &v) || said->odd;
        if (++said->ndim > l->lim->tensor_dims)
            continue;
        if (!zf_vec_room(&l->dim, 1, err))
            return false;
        l->dim.at[l->dim.n++] = v;
    }
    return true;
}

static void load_offsets(struct load *l, struct load_said *said, struct zf_st_entry *e)
{
    uint32_t list = zf_jsonin_enter(l->in, ZF_JSON_ARRAY);

    said->has_pair = zf_jsonin_next(l->in, list) && zf_jsonin_u64(l->in, &e->begin) &&
                     zf_jsonin_next(l->in, list) && zf_jsonin_u64(l->in, &e->end) &&
                     !zf_jsonin_next(l->in, list);
}

/* ---- checking an entry ---- */

static bool load_judge_shape(struct load *l, const struct load_said *said, struct zf_st_entry *e,
                             struct zf_err *err)
{
    uint64_t *dim;

    if (!said->has_shape)
        return load_bad_entry(err, e->name, "\"shape\" is not a list");
    if (said->ndim > l->lim->tensor_dims) {
        return zf_fail_limit(err, ZF_LIMIT_tensor_dims, WORD,
                             "tensor \"%.*s\" has %" PRIu64 " dimensions, more than %" PRIu64
                             " (limit tensor_dims)",
                             SHOWN, e->name, said->ndim, l->lim->tensor_dims);
    }
    if (said->odd)
        return load_bad_entry(err, e->name, "\"shape\" has an entry that is not a size");
    e->ndim = (uint32_t)said->ndim;
    dim = zf_arena_copy(l->arena, l->dim.at, e->ndim, sizeof *dim, err);
    if (!dim)
        return false;
    e->shape = dim;
    if (e->dtype == ZF_DT_F4) {
        if (e->ndim == 0 || dim[e->ndim - 1] % 2) {
            return load_bad_entry(err, e->name,
                                  "4-bit values come in pairs, but the last extent is odd");
        }
        dim[e->ndim - 1] /= 2;
    }
    return true;
}

static bool load_judge(struct load *l, const struct load_said *said, struct zf_st_entry *e,
                       struct zf_err *err)
{
    uint64_t want;

    if (!said->has_dtype)
        return load_bad_entry(err, e->name, "expected an object with a \"dtype\"");
    if (!said->known_dtype) {
        return zf_fail(err, ZF_E_UNSUPPORTED, WORD, "tensor \"%.*s\" has the unknown dtype \"%s\"",
                       SHOWN, e->name, said->dtype);
    }
    if (!load_judge_shape(l, said, e, err))
        return false;
    if (!said->has_pair || e->begin > e->end)
        return load_bad_entry(err, e->name, "\"data_offsets\" is not a pair [begin, end]");
    if (!zf_dtype_size(e->dtype, e->ndim, e->shape, &want))
        return load_bad_entry(err, e->name, "its shape is larger than any file");
    if (want != e->end - e->begin) {
        return zf_fail(err, ZF_E_FORMAT, WORD,
                       "tensor \"%.*s\" has %" PRIu64
                       " bytes, but its shape and dtype need %" PRIu64,
                       SHOWN, e->name, e->end - e->begin, want);
    }
    return true;
}

/* Reads the entry of the tensor whose name was read. */
static bool load_entry(struct load *l, struct zf_err *err)
{
    struct load_said said = {.ndim = 0};
    struct zf_st_entry e = {.ndim = 0};
    size_t name_len;
    uint32_t object;

    if (l->entry.n >= l->lim->tensors) {
        return zf_fail_limit(err, ZF_LIMIT_tensors, WORD,
                             "more than %" PRIu64 " tensors (limit tensors)", l->lim->tensors);
    }
    e.name = load_copy_text(l, &name_len, err);
    if (!e.name)
        return false;
    e.name_len = (uint32_t)name_len;
    object = zf_jsonin_enter(l->in, ZF_JSON_OBJECT);
    while (zf_jsonin_next(l->in, object))
        if (zf_jsonin_is(l->in, "dtype"))
            load_dtype(l, &said, &e);
        else if (zf_jsonin_is(l->in, "data_offsets"))
            load_offsets(l, &said, &e);
        else if (zf_jsonin_is(l->in, "shape") && !load_shape(l, &said, err))
            return false;
    if (!load_judge(l, &said, &e, err) || !zf_vec_room(&l->entry, 1, err))
        return false;
    l->entry.at[l->entry.n++] = e;
    return true;
}

/* Reads "__metadata__": an object of strings. */
static bool load_meta(struct load *l, struct zf_err *err)
{
    uint32_t object = zf_jsonin_enter(l->in, ZF_JSON_OBJECT);
    const char **key, **val;
    size_t n;

    if (!object)
        return zf_fail(err, ZF_E_FORMAT, WORD, "\"__metadata__\" is not an object");
    while (zf_jsonin_next(l->in, object)) {
        key = zf_vec_push(&l->meta_key, err);
        val = key ? zf_vec_push(&l->meta_val, err) : NULL;
        if (!val || !(*key = load_copy_text(l, &n, err)))
            return false;
        if (!zf_jsonin_string(l->in)) {
            return zf_fail(err, ZF_E_FORMAT, WORD,
                           "\"__metadata__\" holds \"%.*s\", which is not text", SHOWN, *key);
        }
        if (!(*val = load_copy_text(l, &n, err)))
            return false;
    }
    return true;
}

static int load_by_begin(const void *a, const void *b)
{
    const struct zf_st_entry *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Sorts the entries, checks that each begins where the previous one ends, and converts offsets in the
 * data part to offsets in the file. */
static bool load_tile(struct zf_st_entry *e, struct zf_st_header *out, struct zf_err *err)
{
    uint64_t at = 0;

    qsort(e, out->n, sizeof *e, load_by_begin);
    for (uint64_t i = 0; i < out->n; i++) {
        if (e[i].begin != at) {
            return zf_fail(err, ZF_E_FORMAT, WORD,
                           "tensor \"%.*s\" begins at byte %" PRIu64
                           " of the data, expected %" PRIu64 ": the tensors %s",
                           SHOWN, e[i].name, e[i].begin, at,
                           e[i].begin < at ? "overlap" : "leave a hole");
        }
        at = e[i].end;
        if (!zf_add(e[i].begin, out->data_off, &e[i].begin) ||
            !zf_add(e[i].end, out->data_off, &e[i].end))
            return load_bad_entry(err, e[i].name, "its offsets are larger than any file");
    }
    out->end_off = out->n ? e[out->n - 1].end : out->data_off;
    out->entry = e;
    return true;
}

static bool load_object(struct load *l, struct zf_err *err)
{
    uint32_t top = zf_jsonin_enter(l->in, ZF_JSON_OBJECT);

    while (zf_jsonin_next(l->in, top))
        if (!(zf_jsonin_is(l->in, "__metadata__") ? load_meta(l, err) : load_entry(l, err)))
            return false;
    return top || zf_fail(err, ZF_E_FORMAT, WORD, "the header is not a JSON object");
}

static bool load_text(struct load *l, struct zf_st_header *out, struct zf_err *err)
{
    bool ok = load_object(l, err);

    /* Malformed JSON is reported first, whatever its entries contain. */
    if (!zf_jsonin_end(l->in, err)) {
        if (err->off != ZF_OFF_NONE && !err->path[0])
            err->off += WORD;
        return false;
    }
    /* Frees the hashes of the keys before the second list of the tensors is made. */
    zf_jsonin_free(l->in);
    l->in = NULL;
    if (!ok)
        return false;
    out->n = l->entry.n;
    out->n_meta = l->meta_key.n;
    struct zf_st_entry *e =
        zf_arena_copy(l->arena, l->entry.at, l->entry.n, sizeof *l->entry.at, err);
    const size_t each = sizeof *l->meta_key.at;
    out->meta_key = e ? zf_arena_copy(l->arena, l->meta_key.at, l->meta_key.n, each, err) : NULL;
    out->meta_val =
        out->meta_key ? zf_arena_copy(l->arena, l->meta_val.at, l->meta_val.n, each, err) : NULL;
    return out->meta_val && load_tile(e, out, err);
}

/* Reads the length word and checks it against the file's size and the limits. */
static bool load_header_len(struct zf_source *src, const struct zf_limits *lim, uint64_t *len_out,
                            struct zf_err *err)
{
    uint8_t word[WORD];

    if (src->size < WORD) {
        return zf_fail(err, ZF_E_FORMAT, 0,
                       "found %" PRIu64
                       " bytes, expected at least the 8 of safetensors' length word",
                       src->size);
    }
    if (!zf_source_pread(src, word, WORD, 0, err))
        return false;
    struct zf_bytes b = zf_bytes_of(word, WORD);
    uint64_t n = zf_bytes_le64(&b);
    if (n > HEADER_MAX) {
        return zf_fail(err, ZF_E_FORMAT, 0,
                       "found a header of %" PRIu64 " bytes, but safetensors allows %" PRIu64, n,
                       HEADER_MAX);
    }
    if (n > lim->json_bytes) {
        return zf_fail_limit(err, ZF_LIMIT_json_bytes, 0,
                             "found a header of %" PRIu64 " bytes, more than %" PRIu64
                             " (limit json_bytes)",
                             n, lim->json_bytes);
    }
    if (!zf_within(WORD, n, src->size)) {
        return zf_fail(err, ZF_E_FORMAT, 0,
                       "found a header of %" PRIu64 " bytes, but only %" PRIu64
                       " follow in the file",
                       n, src->size - WORD);
    }
    *len_out = n;
    return true;
}

static bool load_head(struct zf_source *src, struct zf_arena *arena, const struct zf_limits *lim,
                      struct zf_st_header *out, struct zf_err *err)
{
    struct load l = {.arena = arena, .lim = lim};
    uint64_t n = 0;

    if (!load_header_len(src, lim, &n, err))
        return false;
    out->data_off = WORD + n;
    l.in = zf_jsonin_new(src, WORD, n, lim, err);
    bool ok = l.in && load_text(&l, out, err);
    load_fini(&l);
    return ok;
}

bool zf_st_load_head(struct zf_source *src, struct zf_arena *arena, const struct zf_limits *lim,
                     struct zf_st_header *out, struct zf_err *err)
{
    *out = (struct zf_st_header){.n = 0};
    if (load_head(src, arena, lim, out, err))
        return true;
    /* If reading the source failed, the source has already set its name. */
    return err->path[0] ? false : zf_err_in(err, "%s", src->name);
}

const char *zf_st_meta(const struct zf_st_header *h, const char *key)
{
    for (uint64_t i = 0; i < h->n_meta; i++)
        if (strcmp(h->meta_key[i], key) == 0)
            return h->meta_val[i];
    return NULL;
}

bool zf_st_check_size(const struct zf_st_header *h, const struct zf_source *src, struct zf_err *err)
{
    uint64_t size = src->size, end = h->end_off;

    if (size == end)
        return true;
    zf_fail(err, ZF_E_FORMAT, end < size ? end : size,
            "found a file of %" PRIu64 " bytes, but its header describes %" PRIu64, size, end);
    return zf_err_in(err, "%s", src->name);
}

bool zf_st_load(struct zf_source *src, struct zf_arena *arena, const struct zf_limits *lim,
                struct zf_st_header *out, struct zf_err *err)
{
    return zf_st_load_head(src, arena, lim, out, err) && zf_st_check_size(out, src, err);
}

/* The first read has BEGIN_READ bytes; the headers of most shards are shorter.  At most BEGIN_MOST bytes of a longer
 * header are read ahead. */
#define BEGIN_READ (64u << 10)
#define BEGIN_MOST (1u << 20)

void zf_st_begin(struct zf_source *src)
{
    struct zf_err ignored;
    uint64_t n = src->size < BEGIN_READ ? src->size : BEGIN_READ;
    zf_auto(mem) uint8_t *to = n < WORD ? NULL : malloc(BEGIN_READ);

    if (!to || !zf_source_pread(src, to, (size_t)n, 0, &ignored))
        return;
    struct zf_bytes b = zf_bytes_of(to, WORD);
    const uint64_t len = zf_bytes_le64(&b), most = src->size < BEGIN_MOST ? src->size : BEGIN_MOST;
    const uint64_t end = len > most - WORD ? n : WORD + len;
    for (uint64_t at = n; at < end; at += n) {
        n = end - at < BEGIN_READ ? end - at : BEGIN_READ;
        if (!zf_source_pread(src, to, (size_t)n, at, &ignored))
            return;
    }
}

bool zf_st_sniff(struct zf_source *src)
{
    uint8_t head[WORD + 8];
    struct zf_err ignored = {.code = ZF_OK};
    size_t n = src->size < sizeof head ? (size_t)src->size : sizeof head;

    if (n < WORD + 2 || !zf_source_pread(src, head, n, 0, &ignored))
        return false;
    struct zf_bytes b = zf_bytes_of(head, n);
    uint64_t len = zf_bytes_le64(&b);
    if (len > HEADER_MAX || !zf_within(WORD, len, src->size))
        return false;
    for (size_t i = WORD; i < n; i++)
        if (head[i] != ' ' && head[i] != '\t' && head[i] != '\r' && head[i] != '\n')
            return head[i] == '{';
    return true;
}

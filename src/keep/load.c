/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a checkpoint from a cached model.  Nothing in the file is used before the key was compared, and no source is
 * created before all facts have proved to hold. */
#include <unistd.h>

#include <zf/base/ahead.h>
#include <zf/model/pack.h>
#include <zf/source/facts.h>
#include <zf/source/recipe.h>

#include "keep.h"
#include "kinds.h"

/* The facts read so far. */
struct load_facts {
    zf_vec(struct zf_fact); /* their paths are malloc'ed */
};

/* Files or sources, by number. */
struct load_sources {
    struct zf_source **at; /* [n]; references */
    uint64_t n;
};

struct loading {
    struct zf_keep *k;
    struct zf_store *st;
    struct zf_bytes in;
    struct load_facts claims;
    struct load_sources facts; /* the file of each fact about a file */
    struct load_sources files; /* the files among the sources; borrowed from `facts` */
    struct load_sources sources;
    uint64_t sum[2];
    char *note;     /* malloc'ed; or NULL */
    uint8_t **text; /* the buffer of `in`, freed after unpacking; NULL: the caller frees it */
};

static bool load_bad(const struct loading *l, const char *what, struct zf_err *err)
{
    return zf_fail(err, ZF_E_FORMAT, zf_bytes_off(&l->in), "the cached model has %s", what);
}

/* Reads a number of entries, each of which takes at least a byte, and allocates their array. */
static bool load_room(struct loading *l, struct load_sources *s, uint64_t *n_out,
                      struct zf_err *err)
{
    *n_out = zf_bytes_var(&l->in);
    if (l->in.bad || *n_out > zf_bytes_left(&l->in))
        return load_bad(l, "more entries than bytes", err);
    s->at = calloc(*n_out + 1, sizeof(struct zf_source *));
    return s->at != NULL || zf_fail_sys(err, "load a model");
}

static char *load_text(struct loading *l, struct zf_err *err)
{
    uint64_t n;
    const char *p = zf_bytes_counted(&l->in, &n);
    char *copy = p ? strndup(p, (size_t)n) : NULL;

    if (!copy)
        (void)(p ? zf_fail_sys(err, "load a model") : load_bad(l, "a truncated text", err));
    return copy;
}

/* ---- head ------------------------------------------------------------------------------------ */

/* Reads the note that follows the n bytes of the body; afterwards `in` holds only the body. */
static bool load_note(struct loading *l, uint64_t n, struct zf_err *err)
{
    struct zf_bytes b = l->in;
    uint64_t sum[2];

    (void)zf_bytes_take(&b, n);
    l->in.n = l->in.at + n;
    if (zf_bytes_left(&b) == 0)
        return true;
    const uint64_t first = zf_bytes_le64(&b), second = zf_bytes_le64(&b), left = zf_bytes_left(&b);
    const char *text = zf_bytes_take(&b, left);
    if (b.bad || left > KEEP_NOTE)
        return load_bad(l, "a truncated note", err);
    keep_sum(text, (size_t)left, sum);
    if (sum[0] != first || sum[1] != second)
        return load_bad(l, "a different checksum of its note", err);
    l->note = strndup(text, (size_t)left);
    return l->note || zf_fail_sys(err, "load a model");
}

/* Checks magic, version, length, checksum and key. */
static bool load_head(struct loading *l, struct zf_err *err)
{
    const char *magic = zf_bytes_take(&l->in, sizeof KEEP_MAGIC - 1);
    const uint8_t version = zf_bytes_u8(&l->in);
    const uint64_t n = zf_bytes_le64(&l->in);
    const uint64_t first = zf_bytes_le64(&l->in), second = zf_bytes_le64(&l->in);

    if (l->in.bad || memcmp(magic, KEEP_MAGIC, sizeof KEEP_MAGIC - 1) != 0 ||
        version != KEEP_VERSION)
        return load_bad(l, "a different header", err);
    if (n > zf_bytes_left(&l->in))
        return load_bad(l, "missing bytes", err);
    keep_sum(l->in.p + l->in.at, (size_t)n, l->sum);
    if (l->sum[0] != first || l->sum[1] != second)
        return load_bad(l, "a different checksum", err);
    if (!load_note(l, n, err))
        return false;
    const uint64_t key_len = zf_bytes_le32(&l->in);
    const char *key = zf_bytes_take(&l->in, key_len);
    return (key && key_len == strlen(l->k->key) && memcmp(key, l->k->key, (size_t)key_len) == 0) ||
           load_bad(l, "a different key", err);
}

/* A model whose texts contain the store's name is only valid for that name. */
static bool load_called(struct loading *l, struct zf_err *err)
{
    zf_auto(mem) char *called = load_text(l, err);

    if (!called)
        return false;
    return !*called || strcmp(called, zf_store_name(l->st)) == 0 ||
           zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "it was cached when it was named \"%.200s\"",
                   called);
}

/* ---- facts and sources ----------------------------------------------------------------------- */

static bool load_fact(struct loading *l, struct zf_err *err)
{
    struct zf_fact f = {.kind = zf_bytes_u8(&l->in)};
    char *path = load_text(l, err);

    if (!path)
        return false;
    f.path = path;
    if (f.kind == ZF_FACT_DIR || f.kind == ZF_FACT_FILE) {
        f.print[0] = zf_bytes_le64(&l->in);
        f.print[1] = zf_bytes_le64(&l->in);
    }
    if (f.kind == ZF_FACT_FILE) {
        uint64_t n;
        const void *note = zf_bytes_counted(&l->in, &n);

        f.note = zf_bytes_of(note, n);
    }
    struct zf_fact *to = zf_vec_push(&l->claims, err);
    if (!to) {
        free(path);
        return false;
    }
    *to = f;
    return !l->in.bad || load_bad(l, "a truncated fact", err);
}

/* Reads all facts.  A wrong number is harmless: the first truncated fact is an error. */
static bool load_claims(struct loading *l, struct zf_err *err)
{
    const uint64_t n = zf_bytes_var(&l->in);

    if (l->in.bad)
        return load_bad(l, "a truncated number of facts", err);
    for (uint64_t i = 0; i < n; i++)
        if (!load_fact(l, err))
            return false;
    l->facts.at = calloc(n + 1, sizeof(struct zf_source *));
    return l->facts.at || zf_fail_sys(err, "load a model");
}

static void *load_hold(void *ctx, uint64_t i, struct zf_err *err)
{
    struct loading *l = ctx;
    const struct zf_fact *f = &l->claims.at[i];
    struct zf_source *src;

    return f->kind == ZF_FACT_FILE || zf_store_holds(l->st, f, &src, err) ? l : NULL;
}

/* Checks all facts of a remote store that need a request, except those about files, in parallel. */
static bool load_far(struct loading *l, struct zf_err *err)
{
    const struct zf_ahead_work work = {
        .make = load_hold, .ctx = l, .most = zf_store_ahead(l->st), .few = ZF_AHEAD_FAR};

    return zf_ahead_all(work, l->claims.n, err);
}

/* Checks all facts.  Files come last, because the listings tell whether they are unchanged. */
static bool load_facts(struct loading *l, struct zf_err *err)
{
    const bool far = zf_store_is_far(l->st);

    if (!load_claims(l, err) || (far && !load_far(l, err)))
        return false;
    for (uint64_t i = 0; i < l->claims.n; i++) {
        const struct zf_fact *f = &l->claims.at[i];
        struct zf_source *src = NULL;

        if ((!far || f->kind == ZF_FACT_FILE) && !zf_store_holds(l->st, f, &src, err))
            return false;
        if (src)
            l->facts.at[l->facts.n++] = src;
    }
    return zf_store_prove(l->st, l->facts.at, l->facts.n, err);
}

/* Checks the commit that pins the location.  If it is the same, so are all files. */
static bool load_pin(struct loading *l, struct zf_err *err)
{
    zf_auto(mem) char *pin = load_text(l, err);

    return pin && (strcmp(pin, zf_store_pin(l->st)) == 0 ||
                   zf_fail(err, ZF_E_STALE, ZF_OFF_NONE, "the checkpoint was replaced"));
}

static bool load_files(struct loading *l, struct zf_err *err)
{
    uint64_t n;

    if (!load_room(l, &l->files, &n, err))
        return false;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t fact = zf_bytes_var(&l->in);

        if (l->in.bad || fact >= l->facts.n)
            return load_bad(l, "a file that it does not have", err);
        l->files.at[l->files.n++] = l->facts.at[fact];
    }
    return true;
}

static struct zf_source *load_made(struct loading *l, const struct zf_source_kind *kind,
                                   struct zf_err *err)
{
    const uint64_t parent = zf_bytes_var(&l->in);
    struct zf_remake r = {.store = l->st, .lim = &l->k->lim};

    for (size_t i = 0; i < sizeof r.n / sizeof r.n[0]; i++)
        r.n[i] = zf_bytes_var(&l->in);
    uint64_t n;
    const void *bytes = zf_bytes_counted(&l->in, &n);
    r.bytes = zf_bytes_of(bytes, n);
    if (l->in.bad || parent > l->sources.n)
        return zf_null(load_bad(l, "a truncated source", err));
    r.parent = parent ? l->sources.at[parent - 1] : NULL;
    return kind->make(&r, err);
}

static struct zf_source *load_source(struct loading *l, struct zf_err *err)
{
    const uint64_t what = zf_bytes_var(&l->in);
    const struct zf_source_kind *kind = what ? kinds_at(what - 1) : NULL;
    const uint64_t file = what ? 0 : zf_bytes_var(&l->in);

    if (l->in.bad || (what ? !kind : file >= l->files.n))
        return zf_null(load_bad(l, "a source of an unknown kind", err));
    return kind ? load_made(l, kind, err) : zf_source_ref(l->files.at[file]);
}

static bool load_sources(struct loading *l, struct zf_err *err)
{
    uint64_t n;

    if (!load_room(l, &l->sources, &n, err))
        return false;
    for (uint64_t i = 0; i < n; i++) {
        struct zf_source *s = load_source(l, err);

        if (!s)
            return false;
        l->sources.at[l->sources.n++] = s;
    }
    return true;
}

/* ---- the model ------------------------------------------------------------------------------- */

static struct zf_checkpoint *load_model(struct loading *l, const char *below, const char *format,
                                        const char *why, struct zf_err *err)
{
    zf_auto(store) struct zf_store *st =
        *below ? zf_store_sub(l->st, below, err) : zf_store_ref(l->st);
    zf_auto(build) struct zf_build *b = st ? zf_build_new(st, &l->k->lim, false, err) : NULL;

    if (!b || !zf_build_unpack(b, &l->in, l->sources.at, l->sources.n, err))
        return NULL;
    if (l->text) {
        free(*l->text); /* freed early: it is as large as the sealed model */
        *l->text = NULL;
    }
    return zf_build_seal(zf_give(b), format, why, err);
}

static struct zf_checkpoint *load_all(struct loading *l, struct zf_err *err)
{
    if (!load_head(l, err) || !load_called(l, err))
        return NULL;
    zf_auto(mem) char *below = load_text(l, err);
    zf_auto(mem) char *format = below ? load_text(l, err) : NULL;
    zf_auto(mem) char *why = format ? load_text(l, err) : NULL;

    return why && load_pin(l, err) && load_facts(l, err) && load_files(l, err) &&
                   load_sources(l, err)
               ? load_model(l, below, format, why, err)
               : NULL;
}

static void load_drop(struct load_sources *s)
{
    for (uint64_t i = 0; i < s->n; i++)
        zf_source_unref(&s->at[i]);
    free(s->at);
}

static bool load_say(const struct loading *l, struct zf_checkpoint *c, struct zf_err *err)
{
    c->kept = true;
    memcpy(c->kept_as, l->sum, sizeof c->kept_as);
    c->kept_note = l->note ? zf_arena_str(c->arena, l->note, strlen(l->note), err) : NULL;
    return !l->note || c->kept_note;
}

static struct zf_checkpoint *load_bytes(struct loading l, struct zf_err *err)
{
    zf_auto(checkpoint) struct zf_checkpoint *c = load_all(&l, err);
    const bool ok = c && load_say(&l, c, err);

    free(l.note);
    load_drop(&l.sources);
    load_drop(&l.facts);
    for (size_t i = 0; i < l.claims.n; i++)
        free((char *)(uintptr_t)l.claims.at[i].path);
    zf_vec_fini(&l.claims);
    free(l.files.at);
    return ok ? zf_give(c) : NULL;
}

struct zf_checkpoint *keep_load_bytes(struct zf_keep *k, struct zf_store *st, const void *p,
                                      uint64_t n, struct zf_err *err)
{
    return load_bytes((struct loading){.k = k, .st = st, .in = zf_bytes_of(p, n)}, err);
}

bool zf_keep_has(const struct zf_keep *k)
{
    return faccessat(k->dir, k->name, F_OK, 0) == 0;
}

struct zf_checkpoint *zf_keep_load(struct zf_keep *k, struct zf_store *st, struct zf_err *err)
{
    uint64_t n = 0;
    zf_auto(mem) uint8_t *p = dir_read(k->dir, k->name, k->most + KEEP_HEAD, &n, err);

    return p ? load_bytes((struct loading){.k = k, .st = st, .in = zf_bytes_of(p, n), .text = &p},
                          err)
             : NULL;
}

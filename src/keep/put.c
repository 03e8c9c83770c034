/* SPDX-License-Identifier: Apache-2.0 */
/* Stores a model that is about to be sealed. */
#include <stdio.h>
#include <unistd.h>

#include <zf/base/fd.h>
#include <zf/model/pack.h>
#include <zf/source/facts.h>

#include "keep.h"
#include "kinds.h"

/* Maximum depth of sources made from sources (a window of a byte-swapped window …); real ones have a few. */
#define PUT_DEPTH 16

void keep_sum(const void *p, size_t n, uint64_t out[2])
{
    static const struct zf_hash_key key[2] = {{{0x6b6570742d6d6f64u, 0x656c2d73756d2d31u}},
                                              {{0x6b6570742d6d6f64u, 0x656c2d73756d2d32u}}};

    out[0] = zf_hash_of(&key[0], n, p, n);
    out[1] = zf_hash_of(&key[1], n, p, n);
}

struct zf_keep *zf_keep_new(const char *dir, const char *key, uint64_t most,
                            const struct zf_limits *lim, struct zf_err *err)
{
    struct zf_keep *k = calloc(1, sizeof *k);
    uint64_t sum[2];

    if (!k || !(k->key = strdup(key))) {
        free(k);
        return zf_null(zf_fail_sys(err, "cache a model"));
    }
    k->dir = dir_open(dir, true, err);
    if (k->dir < 0) {
        zf_keep_free(k);
        return NULL;
    }
    keep_sum(key, strlen(key), sum);
    (void)snprintf(k->name, sizeof k->name, "%016llx%016llx.model", (unsigned long long)sum[0],
                   (unsigned long long)sum[1]);
    (void)clock_gettime(CLOCK_REALTIME, &k->began);
    k->most = most;
    k->lim = *lim;
    return k;
}

static void put_forget(struct zf_keep *k)
{
    k->noted = false;
    k->n_sources = 0;
    zf_out_cut(&k->about, 0);
    zf_out_cut(&k->sources, 0);
    zf_out_cut(&k->model, 0);
    zf_table_free(k->known);
    for (size_t i = 0; i < k->files.n; i++)
        zf_source_unref(&k->files.at[i]);
    zf_vec_fini(&k->files);
}

void zf_keep_free(struct zf_keep *k)
{
    if (!k)
        return;
    put_forget(k);
    zf_auto_fd(&k->dir);
    zf_auto_out(&k->about);
    zf_auto_out(&k->sources);
    zf_auto_out(&k->model);
    free(k->key);
    free(k);
}

/* ---- sources --------------------------------------------------------------------------------- */

static bool put_number(struct zf_keep *k, const struct zf_source *s, struct zf_err *err)
{
    struct keep_source *e = zf_table_make_id(k->known, (uintptr_t)s, err);

    if (e)
        e->number = k->n_sources++;
    return e != NULL;
}

/* Packs a file, which has no parent. */
static bool put_file(struct zf_keep *k, struct zf_source *s, struct zf_err *err)
{
    if (!zf_vec_room(&k->files, 1, err))
        return false;
    zf_out_var(&k->sources, 0);
    zf_out_var(&k->sources, k->files.n);
    k->files.at[k->files.n++] = zf_source_ref(s);
    return put_number(k, s, err);
}

static bool put_made(struct zf_keep *k, const struct zf_source *s, const struct zf_recipe *r,
                     struct zf_err *err)
{
    const struct keep_source *parent =
        r->parent ? zf_table_find_id(k->known, (uintptr_t)r->parent) : NULL;
    uint64_t kind;

    if (!kinds_number(r->kind, &kind) || (r->parent && !parent)) {
        return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "sources of kind \"%s\" are not cached",
                       s->ops->kind);
    }
    zf_out_var(&k->sources, kind + 1);
    zf_out_var(&k->sources, parent ? parent->number + 1 : 0);
    for (size_t i = 0; i < sizeof r->n / sizeof r->n[0]; i++)
        zf_out_var(&k->sources, r->n[i]);
    zf_out_counted(&k->sources, r->bytes.p, r->bytes.n);
    return zf_out_ok(&r->bytes, err) && put_number(k, s, err);
}

/* Packs s if its parent is packed already; otherwise *next is the parent, to be packed first. */
static bool put_step(struct zf_keep *k, struct zf_source *s, struct zf_source **next,
                     struct zf_err *err)
{
    struct zf_recipe r = {0};
    bool ok = true;

    *next = NULL;
    if (zf_table_find_id(k->known, (uintptr_t)s))
        return true;
    if (s->ops->identity)
        return put_file(k, s, err);
    if (!s->ops->recipe || !s->ops->recipe(s, &r)) {
        ok = zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "sources of kind \"%s\" are not cached",
                     s->ops->kind);
    } else if (r.parent && !zf_table_find_id(k->known, (uintptr_t)r.parent)) {
        *next = r.parent;
    } else {
        ok = put_made(k, s, &r, err);
    }
    zf_auto_out(&r.bytes);
    return ok;
}

/* Packs src after all sources it is made from; *number_out is its number. */
static bool put_source(void *ctx, struct zf_source *src, uint64_t *number_out, struct zf_err *err)
{
    struct zf_source *chain[PUT_DEPTH] = {src};
    struct zf_keep *k = ctx;
    size_t n = 1;

    while (n > 0) {
        struct zf_source *next;

        if (!put_step(k, chain[n - 1], &next, err))
            return false;
        if (!next)
            n--;
        else if (n < PUT_DEPTH)
            chain[n++] = next;
        else
            return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE, "a source made of too many others");
    }
    *number_out = ((const struct keep_source *)zf_table_find_id(k->known, (uintptr_t)src))->number;
    return true;
}

void zf_keep_sealing(void *ctx, const struct zf_build *b, const char *format, const char *why)
{
    const char *text[] = {zf_store_below(zf_build_store(b)), format, why};
    struct zf_keep *k = ctx;

    put_forget(k);
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++)
        zf_out_counted(&k->about, text[i], strlen(text[i]));
    k->noted = zf_build_pack(b, put_source, k, &k->model, &k->why);
}

/* ---- the file -------------------------------------------------------------------------------- */

struct put_facts {
    struct zf_out out;
    uint64_t n, n_files;
    struct keep_source *files; /* hash table: index of each file among the facts about files */
};

static bool put_fact(void *ctx, const struct zf_fact *f, struct zf_err *err)
{
    struct put_facts *p = ctx;

    p->n++;
    zf_out_u8(&p->out, (uint8_t)f->kind);
    zf_out_counted(&p->out, f->path, strlen(f->path));
    if (f->kind == ZF_FACT_DIR || f->kind == ZF_FACT_FILE) {
        zf_out_le64(&p->out, f->print[0]);
        zf_out_le64(&p->out, f->print[1]);
    }
    if (f->kind == ZF_FACT_FILE) {
        zf_out_counted(&p->out, f->note.p, (size_t)f->note.n);
        struct keep_source *e = zf_table_make_id(p->files, (uintptr_t)f->src, err);

        if (!e)
            return false;
        e->number = p->n_files++;
    }
    return true;
}

/* Writes for each file among the sources the index of its fact. */
static bool put_files(const struct zf_keep *k, const struct put_facts *facts, struct zf_out *out,
                      struct zf_err *err)
{
    zf_out_var(out, k->files.n);
    for (size_t i = 0; i < k->files.n; i++) {
        const struct keep_source *e = zf_table_find_id(facts->files, (uintptr_t)k->files.at[i]);

        if (!e) {
            (void)zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                          "files outside the checkpoint are not cached");
            return zf_err_in(err, "%s", k->files.at[i]->name);
        }
        zf_out_var(out, e->number);
    }
    return true;
}

void keep_head(struct zf_out *out, const void *p, size_t n)
{
    uint64_t sum[2];

    keep_sum(p, n, sum);
    zf_out_add(out, KEEP_MAGIC, sizeof KEEP_MAGIC - 1);
    zf_out_u8(out, KEEP_VERSION);
    zf_out_le64(out, n);
    zf_out_le64(out, sum[0]);
    zf_out_le64(out, sum[1]);
}

static bool put_write(struct zf_keep *k, const struct zf_out *body, struct zf_err *err)
{
    zf_auto(out) struct zf_out head = {0};

    keep_head(&head, body->p, body->n);
    if (!zf_out_ok(&head, err))
        return false;
    if (body->n > k->most) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                       "the model is larger than the whole cache may be");
    }
    const struct dir_part part[] = {{head.p, head.n}, {body->p, body->n}};
    if (!dir_write(k->dir, k->name, part, sizeof part / sizeof part[0], err))
        return false;
    dir_trim(k->dir, k->most);
    return true;
}

/* The store's name if the model contains it, else "".  The same checkpoint can be opened under several names; a model that
 * contains one of them is only valid for that name. */
static const char *put_called(const struct zf_keep *k, const struct zf_store *st)
{
    const struct zf_out *const part[] = {&k->about, &k->sources, &k->model};
    const char *name = zf_store_name(st);

    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        if (part[i]->n && memmem(part[i]->p, part[i]->n, name, strlen(name)))
            return name;
    return "";
}

static bool put_body(struct zf_keep *k, const struct zf_store *st, struct put_facts *facts,
                     struct zf_out *body, struct zf_err *err)
{
    const char *called = put_called(k, st), *pin = zf_store_pin(st);

    zf_out_le32(body, (uint32_t)strlen(k->key));
    zf_out_str(body, k->key);
    zf_out_counted(body, called, strlen(called));
    zf_out_add(body, k->about.p, k->about.n);
    zf_out_counted(body, pin, strlen(pin));
    zf_out_var(body, facts->n);
    zf_out_add(body, facts->out.p, facts->out.n);
    if (!put_files(k, facts, body, err))
        return false;
    zf_out_var(body, k->n_sources);
    zf_out_add(body, k->sources.p, k->sources.n);
    zf_out_add(body, k->model.p, k->model.n);
    return zf_out_ok(&k->about, err) && zf_out_ok(&k->sources, err) &&
           zf_out_ok(&facts->out, err) && zf_out_ok(body, err);
}

bool zf_keep_put(struct zf_keep *k, struct zf_store *st, struct zf_checkpoint *c,
                 struct zf_err *err)
{
    zf_auto(out) struct zf_out body = {0};
    struct put_facts facts = {0};

    if (!k->noted) {
        *err = k->why;
        return false;
    }
    bool ok = zf_store_facts(st, k->began, put_fact, &facts, err) &&
              put_body(k, st, &facts, &body, err) && put_write(k, &body, err);
    if (ok)
        keep_sum(body.p, body.n, c->kept_as);
    zf_table_free(facts.files);
    zf_auto_out(&facts.out);
    put_forget(k);
    return ok;
}

/* ---- a note ---------------------------------------------------------------------------------- */

/* Length of the cached model in p[n], without its note, if c was made from it; else 0. */
static uint64_t put_is_model_of(const struct zf_checkpoint *c, const void *p, uint64_t n)
{
    struct zf_bytes b = zf_bytes_of(p, n);
    const char *magic = zf_bytes_take(&b, sizeof KEEP_MAGIC - 1);
    const uint8_t version = zf_bytes_u8(&b);
    const uint64_t body = zf_bytes_le64(&b);
    const uint64_t first = zf_bytes_le64(&b), second = zf_bytes_le64(&b);

    return !b.bad && memcmp(magic, KEEP_MAGIC, sizeof KEEP_MAGIC - 1) == 0 &&
                   version == KEEP_VERSION && body <= zf_bytes_left(&b) && first == c->kept_as[0] &&
                   second == c->kept_as[1]
               ? KEEP_HEAD + body
               : 0;
}

bool zf_keep_note(struct zf_keep *k, const struct zf_checkpoint *c, const char *text,
                  struct zf_err *err)
{
    const size_t n = strlen(text);
    zf_auto(out) struct zf_out sum = {0};
    uint64_t have = 0, of[2];

    if (n > KEEP_NOTE || n > k->most)
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "the note has more than %u bytes", KEEP_NOTE);
    zf_auto(mem) uint8_t *p = dir_read(k->dir, k->name, k->most + KEEP_HEAD, &have, err);
    if (!p)
        return false;
    const uint64_t model = put_is_model_of(c, p, have);
    if (model == 0)
        return zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE, "the cached model was replaced");
    keep_sum(text, n, of);
    zf_out_le64(&sum, of[0]);
    zf_out_le64(&sum, of[1]);
    const struct dir_part part[] = {{p, (size_t)model}, {sum.p, sum.n}, {text, n}};
    return zf_out_ok(&sum, err) &&
           dir_write(k->dir, k->name, part, sizeof part / sizeof part[0], err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Reads all files, sorted by name and cut into stretches that threads read; the results of stretches are joined in the
 * order of bytes: the CRCs of archive members, and the counts of tensor values.  Bytes that are made (decompressed,
 * swapped, values of pickles) follow after all files, through their sources. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include <zf/base/ahead.h>
#include <zf/base/search.h>
#include <zf/base/table.h>

#include "stretch.h"
#include "sums.h"

#define PASS_STRETCH ((uint64_t)8 << 20)
#define PAGE ((size_t)4096)

struct pass {
    struct verify *v;
    zf_vec(struct shard) shard; /* by name */
    uint64_t n_stretches;
    pthread_mutex_t lock;  /* protects the buffers */
    zf_vec(void *) buffer; /* free buffers */
    struct pass_told *told;
};

/* A tensor that a reported failure concerns. */
struct pass_told {
    UT_hash_handle hh; /* key: "<path of the failure> <index of the tensor>" */
};

/* ---- reading --------------------------------------------------------------------------------- */

static void *pass_borrow(struct pass *p, struct zf_err *err)
{
    void *b = NULL;

    (void)pthread_mutex_lock(&p->lock);
    if (p->buffer.n > 0)
        b = p->buffer.at[--p->buffer.n];
    (void)pthread_mutex_unlock(&p->lock);
    /* the kernel copies faster to a page-aligned address */
    b = b ? b : aligned_alloc(PAGE, STRETCH_CHUNK + PAGE);
    if (!b)
        (void)zf_fail_sys(err, "read");
    return b;
}

static void pass_give_back(struct pass *p, void *b)
{
    struct zf_err ignored;

    (void)pthread_mutex_lock(&p->lock);
    void **to = zf_vec_push(&p->buffer, &ignored);
    if (to)
        *to = b;
    (void)pthread_mutex_unlock(&p->lock);
    if (!to)
        free(b);
}

/* The last file that starts at or before stretch i. */
static struct shard *pass_shard(const struct pass *p, uint64_t i)
{
    size_t next;

    ZF_SEARCH(next, p->shard.n, p->shard.at[next].first_stretch > i);
    return &p->shard.at[next - 1];
}

/* The offset of stretch i, counted over all files, within its file s; *end_out: where it ends. */
static uint64_t pass_span(const struct shard *s, uint64_t i, uint64_t *end_out)
{
    const uint64_t off = (i - s->first_stretch) * PASS_STRETCH, left = s->src->size - off;

    *end_out = s->summed || left < PASS_STRETCH ? s->src->size : off + PASS_STRETCH;
    return off;
}

static void *pass_make(void *ctx, uint64_t i, struct zf_err *err)
{
    struct pass *p = ctx;
    zf_auto(stretch) struct stretch *out = calloc(1, sizeof *out);
    uint8_t *buf = out ? pass_borrow(p, err) : NULL;

    if (!buf) {
        (void)(out || zf_fail_sys(err, "read"));
        return NULL;
    }
    zf_err_clear(&out->err);
    bool ok;
    if (i < p->n_stretches) {
        struct shard *s = pass_shard(p, i);
        uint64_t end;
        const uint64_t off = pass_span(s, i, &end);

        ok = stretch_read(p->v, s, off, end, out, buf, &out->err);
    } else {
        ok =
            stretch_read_made(p->v, &p->v->places.made.at[i - p->n_stretches], out, buf, &out->err);
    }
    pass_give_back(p, buf);
    if (!ok && out->err.code == ZF_E_NOMEM) {
        *err = out->err;
        return NULL;
    }
    return zf_give(out);
}

/* ---- joining --------------------------------------------------------------------------------- */

/* Reports findings about the archive as a whole, together with its first stretch. */
static bool pass_report_archive(struct pass *p, const struct shard *s, struct zf_err *err)
{
    struct verify_about about = {
        .kind = ZF_FOUND_ARCHIVE, .weight = ZF_WEIGHT_DAMAGE, .file = s->src->name};

    for (size_t i = 0; i < s->bad.n; i++) {
        about.first = s->bad.at[i].first;
        about.end = s->bad.at[i].end;
        if (!verify_found_at(p->v, &about, s->src, s->bad.at[i].why.msg, err))
            return false;
    }
    for (size_t i = 0; i < s->part.n; i++) {
        const struct shard_part *part = &s->part.at[i];

        about.first = part->first;
        about.end = part->name ? part->data : part->end;
        about.weight = part->name ? ZF_WEIGHT_DAMAGE : ZF_WEIGHT_NOTE;
        if ((part->differs &&
             !verify_found(p->v, &about, err,
                           "the header of member \"%s\" here differs from the directory in its %s",
                           part->name, part->differs)) ||
            (!part->name && !verify_found(p->v, &about, err, "these bytes belong to no member")))
            return false;
    }
    return true;
}

static bool pass_join_crcs(struct pass *p, struct shard *s, const struct stretch *x, uint64_t end,
                           struct zf_err *err)
{
    for (size_t i = 0; i < x->crc.n; i++) {
        struct shard_part *part = &s->part.at[x->crc.at[i].part];
        const struct verify_about about = {.kind = ZF_FOUND_ARCHIVE,
                                           .weight = ZF_WEIGHT_DAMAGE,
                                           .file = s->src->name,
                                           .first = part->data,
                                           .end = part->data_end};
        char text[256];

        part->is = (uint32_t)crc32_combine(part->is, x->crc.at[i].crc, (z_off_t)x->crc.at[i].n);
        if (part->data_end > end || part->is == part->crc)
            continue;
        zf_say(text, sizeof text, "member \"%s\" has the CRC-32 %08x, but %08x is recorded",
               part->name, part->is, part->crc);
        if (!verify_found_at(p->v, &about, s->src, text, err))
            return false;
    }
    for (size_t i = 0; i < x->bad.n; i++) {
        const struct shard_part *part = &s->part.at[x->bad_part.at[i]];
        const struct verify_about about = {.kind = ZF_FOUND_ARCHIVE,
                                           .weight = ZF_WEIGHT_DAMAGE,
                                           .file = s->src->name,
                                           .first = part->data,
                                           .end = part->data_end};

        if (!verify_found_at(p->v, &about, s->src, x->bad.at[i].msg, err))
            return false;
    }
    return true;
}

static void pass_join_values(struct pass *p, const struct zf_source *file, const struct stretch *x)
{
    for (size_t i = 0; i < x->value.n; i++) {
        const uint32_t t = x->value.at[i].tensor;
        struct verify_value *to = &p->v->value[t];
        const bool known = to->v.at_known;

        values_join(&to->v, p->v->o->tensor[t].tensor->dtype, &x->value.at[i].v);
        to->file = to->v.at_known && !known ? file : to->file;
    }
}

/* Reports a failed read; for a file that changed or is gone, only once. */
static bool pass_report_failure(struct pass *p, struct shard *s, const struct zf_err *why,
                                struct zf_err *err)
{
    const struct verify_about about = {.kind = ZF_FOUND_READ,
                                       .weight = verify_weight(why),
                                       .file = s ? s->src->name : why->path,
                                       .first = why->off == ZF_OFF_NONE ? 0 : why->off,
                                       .end = why->off == ZF_OFF_NONE ? 0 : why->off};
    const bool told = s && s->failed;

    if (s)
        s->failed = true;
    return told || verify_found(p->v, &about, err, "%s", why->msg);
}

static bool pass_join_shard(struct pass *p, uint64_t i, const struct stretch *x, struct zf_err *err)
{
    struct shard *s = pass_shard(p, i);
    uint64_t end;

    (void)pass_span(s, i, &end);
    const bool last = end == s->src->size;

    if (i == s->first_stretch && !pass_report_archive(p, s, err))
        return false;
    if (x->err.code != ZF_OK && !pass_report_failure(p, s, &x->err, err))
        return false;
    if (!s->failed && !pass_join_crcs(p, s, x, end, err))
        return false;
    pass_join_values(p, s->src, x);
    replicas_join(&p->v->replicas, &x->replicas);
    if (x->sha256[0])
        sums_set(p->v->sums, s->src, x->sha256);
    if (last) {
        shard_unload(s);
        atomic_fetch_add(&p->v->o->progress->files, 1);
    }
    return true;
}

/* Reports that bytes of a tensor cannot be made; for an item of a file, once for each of its tensors, of which each row
 * may be made by itself.  The failure's byte is one of the item. */
static bool pass_report_made(struct pass *p, uint32_t tensor, const struct zf_err *why,
                             struct zf_err *err)
{
    const size_t n = strcspn(why->path, "!");
    zf_auto(mem) char *file = strndup(why->path, n);
    const struct verify_about about = {
        .kind = ZF_FOUND_READ, .weight = verify_weight(why), .file = file};
    const unsigned before = HASH_COUNT(p->told);
    char key[sizeof why->path + 16], where[sizeof why->path + 40] = "";

    (void)snprintf(key, sizeof key, "%s %" PRIu32, why->path, tensor);
    if (!file)
        return zf_fail_sys(err, "read");
    if (!zf_table_make_str(p->told, key, err))
        return false;
    uint32_t *to = HASH_COUNT(p->told) > before ? zf_vec_push(&p->v->hit, err) : NULL;
    if (!to)
        return HASH_COUNT(p->told) == before;
    *to = tensor;
    if (why->path[n])
        (void)snprintf(where, sizeof where, " in %s", why->path + n + 1);
    if (why->off != ZF_OFF_NONE) {
        (void)snprintf(where + strlen(where), sizeof where - strlen(where), ", byte %" PRIu64,
                       why->off);
    }
    return verify_found(p->v, &about, err, "%s%s", why->msg, where);
}

static bool pass_join_made(struct pass *p, const struct place_made *m, const struct stretch *x,
                           struct zf_err *err)
{
    if (x->err.code != ZF_OK && !pass_report_made(p, m->tensor, &x->err, err))
        return false;
    pass_join_values(p, NULL, x);
    return true;
}

static bool pass_join(struct pass *p, uint64_t i, const struct stretch *x, struct zf_err *err)
{
    p->v->sum->bytes += x->bytes;
    return i < p->n_stretches
               ? pass_join_shard(p, i, x, err)
               : pass_join_made(p, &p->v->places.made.at[i - p->n_stretches], x, err);
}

static bool pass_run(struct pass *p, struct zf_err *err)
{
    const uint64_t n = p->n_stretches + p->v->places.made.n;
    const uint32_t few = p->v->o->jobs;
    const struct zf_ahead_work work = {.make = pass_make,
                                       .drop = stretch_free,
                                       .ctx = p,
                                       .few = few,
                                       .most = few > ZF_AHEAD_FAR ? few : ZF_AHEAD_FAR};
    zf_auto(ahead) struct zf_ahead *ahead = zf_ahead_new(work, n, err);

    for (uint64_t i = 0; ahead && i < n; i++) {
        zf_auto(stretch) struct stretch *x = zf_ahead_take(ahead, err);

        if (!x || !pass_join(p, i, x, err))
            return false;
    }
    return ahead != NULL;
}

/* ---- which files ----------------------------------------------------------------------------- */

struct pass_paths {
    const struct zf_store *store;
    zf_vec(char *) path; /* owned */
    bool ok;
    struct zf_err *err;
};

static void pass_note_path(void *ctx, const struct zf_file_stats *s)
{
    struct pass_paths *paths = ctx;
    const char *path = zf_store_inside(paths->store, s->path);
    char **to = paths->ok && path ? zf_vec_push(&paths->path, paths->err) : NULL;

    if (!path)
        return;
    if (to) {
        *to = strdup(path);
        paths->ok = *to || zf_fail_sys(paths->err, "list files");
    }
    paths->ok = paths->ok && to;
}

static bool pass_add(struct pass *p, struct zf_source *src, struct zf_err *err)
{
    struct shard *s = zf_vec_push(&p->shard, err);
    struct zf_err why;

    if (!s)
        return false;
    const bool ok = shard_init(s, src, &p->v->places, &why);
    s->summed = ok && sums_want(p->v->sums, src);
    if (!ok || !(s->summed || (s->places && src->size > 0) || (s->archive && !p->v->o->part))) {
        shard_fini(s);
        p->shard.n--;
    }
    return ok || pass_report_failure(p, NULL, &why, err);
}

/* Adds the opened archives, also those without tensors: the contents of state/ come from them. */
static bool pass_add_opened(struct pass *p, struct zf_err *err)
{
    struct pass_paths paths = {.store = p->v->c->store, .ok = true, .err = err};
    struct zf_err why;

    zf_store_stats(p->v->c->store, pass_note_path, &paths);
    for (size_t i = 0; i < paths.path.n; i++) {
        zf_auto(source) struct zf_source *src =
            paths.ok ? zf_store_open(p->v->c->store, paths.path.at[i], &why) : NULL;

        if (src && !places_find(&p->v->places, src))
            paths.ok = pass_add(p, src, err);
        free(paths.path.at[i]);
    }
    zf_vec_fini(&paths.path);
    return paths.ok;
}

static int pass_by_name(const void *a, const void *b)
{
    const struct shard *x = a, *y = b;

    return strcmp(x->src->name, y->src->name);
}

static bool pass_list(struct pass *p, struct zf_err *err)
{
    for (size_t i = 0; i < p->v->places.file.n; i++)
        if (!pass_add(p, p->v->places.file.at[i].src, err))
            return false;
    if (!pass_add_opened(p, err))
        return false;
    if (p->shard.n > 0)
        qsort(p->shard.at, p->shard.n, sizeof *p->shard.at, pass_by_name);
    for (size_t i = 0; i < p->shard.n; i++) {
        const uint64_t size = p->shard.at[i].src->size;

        p->shard.at[i].first_stretch = p->n_stretches;
        p->n_stretches +=
            p->shard.at[i].summed ? 1 : size / PASS_STRETCH + (size % PASS_STRETCH > 0);
        atomic_fetch_add(&p->v->o->progress->all, size);
        if (!verify_count_file(p->v, p->shard.at[i].src->name, err))
            return false;
    }
    atomic_store(&p->v->o->progress->n_files, (uint_fast32_t)p->shard.n);
    return true;
}

bool verify_pass(struct verify *v, struct zf_err *err)
{
    struct pass p = {.v = v, .lock = PTHREAD_MUTEX_INITIALIZER};
    const bool ok = pass_list(&p, err) && pass_run(&p, err);

    for (size_t i = 0; i < p.shard.n; i++)
        shard_fini(&p.shard.at[i]);
    zf_vec_fini(&p.shard);
    for (size_t i = 0; i < p.buffer.n; i++)
        free(p.buffer.at[i]);
    zf_vec_fini(&p.buffer);
    zf_table_free(p.told);
    (void)pthread_mutex_destroy(&p.lock);
    return ok;
}

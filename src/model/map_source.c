/* SPDX-License-Identifier: Apache-2.0 */
/* A map where a source is wanted: a tensor that was put together is a piece of another one. */
#include <zf/model/model.h>

#include <stdlib.h>

struct map_source {
    struct zf_source src;
    struct zf_checkpoint *owner;
    const struct zf_map *map;
};

static bool map_source_pread(struct zf_source *s, void *buf, size_t n, uint64_t off,
                             struct zf_err *err)
{
    return zf_map_read(((const struct map_source *)s)->map, buf, n, off, err);
}

/* The map says where each run of bytes is; the source of a run goes on from there. */
static bool map_source_trace(struct zf_source *s, struct zf_trace *t)
{
    struct zf_run run = zf_map_at(((const struct map_source *)s)->map, t->off);

    t->len = t->len < run.len ? t->len : run.len;
    if (run.kind != ZF_RUN_SRC) {
        return false;
    }
    t->src = run.src;
    t->off = run.off;
    return true;
}

static bool map_source_origin(struct zf_source *s, uint64_t *off, struct zf_source **parent_out)
{
    struct zf_trace t = {.src = s, .off = *off, .len = 1};

    if (*off >= s->size || !map_source_trace(s, &t)) {
        return false;
    }
    *off = t.off;
    *parent_out = t.src;
    return true;
}

static void map_source_fini(struct zf_source *s)
{
    struct map_source *m = (struct map_source *)s;

    zf_checkpoint_free(m->owner);
    zf_source_fini(s);
    free(m);
}

static const struct zf_source_ops map_source_ops = {
    .kind = "map",
    .pread = map_source_pread,
    .origin = map_source_origin,
    .trace = map_source_trace,
    .fini = map_source_fini,
};

struct zf_source *zf_map_source_new(struct zf_checkpoint *owner, const struct zf_map *m,
                                    const char *name, struct zf_err *err)
{
    struct map_source *s = calloc(1, sizeof *s);

    if (!s || !zf_source_init(&s->src, &map_source_ops, name, zf_map_size(m), err)) {
        if (!s) {
            (void)zf_fail_sys(err, "make a source of a map");
        }
        free(s);
        zf_checkpoint_free(owner);
        return NULL;
    }
    s->owner = owner;
    s->map = m;
    return &s->src;
}

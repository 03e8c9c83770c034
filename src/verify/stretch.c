/* SPDX-License-Identifier: Apache-2.0 */
#include "stretch.h"

#include <nettle/sha2.h>

#include <zf/base/crc.h>
#include <zf/base/hex.h>

void stretch_free(void *stretch)
{
    struct stretch *s = stretch;

    if (s) {
        zf_vec_fini(&s->crc);
        zf_vec_fini(&s->value);
        zf_vec_fini(&s->replicas);
        zf_vec_fini(&s->bad);
        zf_vec_fini(&s->bad_part);
        free(s);
    }
}

/* Bytes of a file, in memory. */
struct chunk {
    const struct verify *verify;
    struct stretch *to;
    const uint8_t *p; /* bytes [off, end), and a few after them */
    uint64_t off, end;
    const struct zf_verify_tensor *tensor;
    const struct place *place;
    struct values *value;
};

/* Counts the elements in a run of bytes that starts with a whole element. */
static void stretch_add_run(void *ctx, uint64_t off, uint64_t n)
{
    const struct chunk *c = ctx;
    const uint32_t each = zf_dtype_info(c->tensor->tensor->dtype)->bytes;

    values_add(c->value, c->tensor->tensor->dtype, c->p + (off - c->off), (size_t)(n / each),
               verify_are_squares(c->tensor), off);
}

static struct values *stretch_value(struct stretch *s, uint32_t tensor, struct zf_err *err)
{
    if (s->value.n > 0 && s->value.at[s->value.n - 1].tensor == tensor)
        return &s->value.at[s->value.n - 1].v;
    struct stretch_value *to = zf_vec_push(&s->value, err);
    if (to)
        to->tensor = tensor;
    return to ? &to->v : NULL;
}

/* The first element at or after off: an element belongs to the chunk it starts in. */
static uint64_t stretch_align(const struct place *at, uint64_t off, uint32_t each)
{
    return off <= at->off ? at->off : at->off + (off - at->off + each - 1) / each * each;
}

static bool stretch_add_place(struct chunk *c, const struct place *at, struct zf_err *err)
{
    const struct verify *v = c->verify;

    c->tensor = &v->o->tensor[at->tensor];
    const uint32_t each = zf_dtype_info(c->tensor->tensor->dtype)->bytes;
    if (!at->raw || !values_are_floats(c->tensor->tensor->dtype))
        return true;
    c->value = stretch_value(c->to, at->tensor, err);
    if (c->value) {
        place_each_run(&v->places, at, stretch_align(at, c->off, each),
                       stretch_align(at, c->end, each), stretch_add_run, c);
    }
    return c->value != NULL;
}

static bool stretch_add_values(struct chunk *c, const struct place_file *f, struct zf_err *err)
{
    for (size_t i = place_begin(f, c->off); i < f->at.n && f->at.at[i].off < c->end; i++)
        if (f->at.at[i].end > c->off && !stretch_add_place(c, &f->at.at[i], err))
            return false;
    return true;
}

static bool stretch_add_crcs(const struct chunk *c, const struct shard *s, struct zf_err *err)
{
    for (size_t i = shard_part_at(s, c->off); i < s->part.n && s->part.at[i].first < c->end; i++) {
        const struct shard_part *p = &s->part.at[i];
        const uint64_t from = p->data > c->off ? p->data : c->off,
                       to = p->data_end < c->end ? p->data_end : c->end;

        if (!p->name || p->packed || p->crc == 0 || from >= to)
            continue;
        struct stretch_crc *last = c->to->crc.n ? &c->to->crc.at[c->to->crc.n - 1] : NULL;
        if (!last || last->part != i)
            last = zf_vec_push(&c->to->crc, err);
        if (!last)
            return false;
        last->part = i;
        last->crc = zf_crc32(last->crc, c->p + (from - c->off), (size_t)(to - from));
        last->n += to - from;
    }
    return true;
}

static bool stretch_unpack(const struct verify *v, struct shard *s, uint64_t off, uint64_t end,
                           struct stretch *out, void *buf, struct zf_err *err)
{
    for (size_t i = shard_part_at(s, off); i < s->part.n && s->part.at[i].first < end; i++) {
        const struct shard_part *part = &s->part.at[i];
        struct zf_err why;

        if (!part->packed || part->data < off || part->data >= end ||
            shard_unpack(s, part, v->o->lim, buf, STRETCH_CHUNK, &why))
            continue;
        if (verify_weight(&why) != ZF_WEIGHT_DAMAGE) {
            *err = why;
            return false;
        }
        struct zf_err *to = zf_vec_push(&out->bad, err);
        size_t *which = to ? zf_vec_push(&out->bad_part, err) : NULL;
        if (!which)
            return false;
        *to = why;
        *which = i;
    }
    return true;
}

static bool stretch_read_chunk(const struct chunk *c, struct shard *s, uint8_t *buf,
                               struct zf_err *err)
{
    const uint64_t rest = s->src->size - c->off, want = c->end - c->off + STRETCH_BEHIND,
                   n = rest < want ? rest : want;
    struct chunk here = *c;

    if (!zf_source_pread(s->src, buf, (size_t)n, c->off, err))
        return false;
    c->to->bytes += n;
    atomic_fetch_add(&c->verify->o->progress->bytes, c->end - c->off);
    return stretch_add_crcs(c, s, err) &&
           replicas_add(&c->verify->replicas, s->src, c->p, c->off, c->end, &c->to->replicas,
                        err) &&
           (!s->places || stretch_add_values(&here, s->places, err));
}

bool stretch_read(const struct verify *v, struct shard *s, uint64_t off, uint64_t end,
                  struct stretch *out, uint8_t *buf, struct zf_err *err)
{
    struct sha256_ctx sha;
    uint8_t digest[SHA256_DIGEST_SIZE];

    if (!shard_load(s, v->o->lim, err))
        return false;
    sha256_init(&sha);
    for (uint64_t at = off; at < end; at += STRETCH_CHUNK) {
        const struct chunk c = {.verify = v,
                                .to = out,
                                .p = buf,
                                .off = at,
                                .end = end - at < STRETCH_CHUNK ? end : at + STRETCH_CHUNK};

        if (!stretch_read_chunk(&c, s, buf, err))
            return false;
        if (s->summed)
            sha256_update(&sha, (size_t)(c.end - at), buf);
    }
    if (s->summed) {
        sha256_digest(&sha, sizeof digest, digest);
        zf_hex(out->sha256, digest, sizeof digest);
    }
    return stretch_unpack(v, s, off, end, out, buf, err);
}

bool stretch_read_made(const struct verify *v, const struct place_made *m, struct stretch *out,
                       uint8_t *buf, struct zf_err *err)
{
    const struct zf_verify_tensor *t = &v->o->tensor[m->tensor];
    const uint32_t each = zf_dtype_info(t->tensor->dtype)->bytes;
    struct values *to = stretch_value(out, m->tensor, err);

    for (uint64_t at = 0; to && at < m->n; at += STRETCH_CHUNK) {
        const size_t n = m->n - at < STRETCH_CHUNK ? (size_t)(m->n - at) : STRETCH_CHUNK;

        if (!zf_source_pread(m->src, buf, n, m->off + at, err))
            return false;
        if (values_are_floats(t->tensor->dtype) && m->n % each == 0) {
            values_add(to, t->tensor->dtype, buf, n / each, verify_are_squares(t), 0);
            to->at_known = false;
        }
    }
    return to != NULL;
}

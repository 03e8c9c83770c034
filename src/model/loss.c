/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the lost bytes of a tensor.  Nothing is stored for that: the sources of lost bytes know the
 * reason, and a walk over the runs of the map finds them.  A tensor cut in columns has a run per row,
 * so this is for messages, never for reads. */
#include <zf/model/model.h>

#include <string.h>

/* The most runs visited for one answer. */
#define MOST_RUNS (1u << 20)

static bool loss_same_text(const char *a, const char *b)
{
    return a == b || strcmp(a, b) == 0;
}

/* Is the byte lost?  *len_out: the number of bytes for which the answer holds. */
static bool loss_lost_at(const struct zf_map *m, uint64_t at, uint64_t *len_out,
                         struct zf_lost *how)
{
    struct zf_run run = zf_map_at(m, at);
    uint64_t until = 0;
    bool lost = false;

    *len_out = run.len;
    if (run.kind == ZF_RUN_SRC) {
        lost = zf_source_lost(run.src, run.off, &until, how);
        if (until > run.off && until - run.off < run.len)
            *len_out = until - run.off;
    } else if (run.kind == ZF_RUN_MADE) {
        *how = (struct zf_lost){.file = "", .why = "no piece of the tensor covers this byte"};
        lost = true;
    }
    return lost;
}

bool zf_map_loss(const struct zf_map *m, uint64_t off, struct zf_loss *out)
{
    uint64_t size = zf_map_size(m), len;
    struct zf_lost how = {.file = ""};
    bool found = false;

    for (uint32_t i = 0; off < size; i++, off += len) {
        bool lost = loss_lost_at(m, off, &len, &how);

        if (i == MOST_RUNS) {
            /* The rest, which is not visited, counts as lost, because it may be. */
            *out =
                found ? *out
                      : (struct zf_loss){.first = off, .how = {.file = "", .why = "not looked at"}};
            out->end = size;
            return true;
        }
        if (found && (!lost || !loss_same_text(how.why, out->how.why) ||
                      !loss_same_text(how.file, out->how.file)))
            return true;
        if (lost && !found) {
            *out = (struct zf_loss){.first = off, .how = how};
            found = true;
        }
        if (lost)
            out->end = off + len;
    }
    return found;
}

struct each_loss {
    bool (*fn)(void *ctx, const struct zf_lost *how);
    void *ctx;
};

static bool loss_ask(void *ctx, struct zf_source *s, uint64_t off, uint64_t len)
{
    const struct each_loss *e = ctx;
    struct zf_lost how;
    uint64_t until;

    return len == 0 || !zf_source_lost(s, off + len - 1, &until, &how) || e->fn(e->ctx, &how);
}

bool zf_map_each_loss(const struct zf_map *m, bool (*fn)(void *ctx, const struct zf_lost *how),
                      void *ctx)
{
    struct each_loss e = {.fn = fn, .ctx = ctx};

    return zf_map_each_source(m, loss_ask, &e);
}

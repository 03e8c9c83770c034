/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a store as one format and reads the end of everything in it. */
#ifndef TESTS_FUZZ_OPENED_H
#define TESTS_FUZZ_OPENED_H

#include <stdlib.h>

#include <zf/find.h>

#define OPENED_READ_MAX 4096u

/* No code: who reports a failure must set one, and who looks at a code must know that one was set. */
#define OPENED_NO_CODE ((enum zf_code)0x5a5a)

static inline void opened_read(const struct zf_map *m)
{
    static char buf[OPENED_READ_MAX];
    uint64_t size = zf_map_size(m), n = size < OPENED_READ_MAX ? size : OPENED_READ_MAX;
    struct zf_err err = {.code = OPENED_NO_CODE};

    if (n && !zf_map_read(m, buf, n, size - n, &err) &&
        (err.code == ZF_OK || err.code == OPENED_NO_CODE))
        abort(); /* a failure without a reason */
}

static inline void opened_try(struct zf_store *st, const char *format, const struct zf_limits *lim,
                              bool degraded)
{
    struct zf_open_opts o = {.lim = lim, .format = format, .degraded = degraded};
    struct zf_err err = {.code = OPENED_NO_CODE};
    zf_auto(checkpoint) struct zf_checkpoint *c = zf_open(st, &o, &err);

    if (!c) {
        if (err.code == ZF_OK || err.code == OPENED_NO_CODE)
            abort();
        return;
    }
    for (uint32_t i = 0; i < c->n_sets; i++)
        for (uint32_t k = 0; k < c->set[i].n; k++)
            opened_read(c->set[i].tensor[k].data);
    for (uint32_t i = 0; i < c->n_blobs; i++)
        opened_read(c->blob[i].data);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a degraded checkpoint that are not there. */
#include <zf/source/source.h>

#include <string.h>

struct lost {
    struct zf_source src;
    char why[];
};

static bool lost_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *err)
{
    const struct lost *l = (const struct lost *)s;

    (void)buf, (void)n, (void)off;
    return zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "%s", l->why);
}

static void lost_fini(struct zf_source *s)
{
    zf_source_fini(s);
    free(s);
}

static const struct zf_source_ops lost_ops = {
    .kind = "lost",
    .pread = lost_pread,
    .fini = lost_fini,
};

struct zf_source *zf_lost_new(uint64_t size, const char *why, struct zf_err *err)
{
    size_t n = strlen(why) + 1;
    struct lost *l = calloc(1, sizeof *l + n);

    if (!l) {
        (void)zf_fail_sys(err, "note what is lost");
        return NULL;
    }
    if (!zf_source_init(&l->src, &lost_ops, "", size, err)) {
        free(l);
        return NULL;
    }
    memcpy(l->why, why, n);
    return &l->src;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Files that will be opened one after the other, each for a round trip or two: behind an address
 * they are opened together beforehand.  A failure is met by whoever opens the file in its turn. */
#include <stdlib.h>

#include <zf/base/ahead.h>
#include <zf/base/path.h>
#include <zf/base/vec.h>
#include <zf/source/store.h>

struct expect {
    struct zf_store *st;
    zf_vec(char *) path;
};

static void *expect_open(void *ctx, uint64_t i, struct zf_err *err)
{
    const struct expect *x = ctx;

    return zf_store_open(x->st, x->path.at[i], err);
}

static void expect_drop(void *made)
{
    struct zf_source *src = made;

    zf_source_unref(&src);
}

static bool expect_list(struct expect *x, const char *dir, bool (*is)(const char *name),
                        struct zf_err *err)
{
    const struct zf_entry *e;
    size_t n;
    bool ok = zf_store_list(x->st, dir, &e, &n, err);

    for (size_t i = 0; ok && i < n; i++) {
        if (e[i].kind == ZF_ENTRY_FILE && is(e[i].name)) {
            char **to = zf_vec_push(&x->path, err);

            ok = to && (*to = zf_relpath_join(dir, e[i].name, err));
        }
    }
    return ok;
}

static void expect_fini(struct expect *x)
{
    for (size_t i = 0; i < x->path.n; i++) {
        free(x->path.at[i]);
    }
    zf_vec_fini(&x->path);
}

void zf_store_expect(struct zf_store *st, const char *dir, bool (*is)(const char *name))
{
    struct expect x = {.st = st};
    struct zf_err ignored;

    if (zf_store_is_far(st) && expect_list(&x, dir, is, &ignored) && x.path.n > 1) {
        zf_auto(ahead) struct zf_ahead *ahead =
            zf_ahead_new((struct zf_ahead_work){.make = expect_open,
                                                .drop = expect_drop,
                                                .ctx = &x,
                                                .most = zf_store_ahead(st),
                                                .few = ZF_AHEAD_FAR},
                         x.path.n, &ignored);
        for (size_t i = 0; ahead && i < x.path.n; i++) {
            expect_drop(zf_ahead_take(ahead, &ignored));
        }
    }
    expect_fini(&x);
}

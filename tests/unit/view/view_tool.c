/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the tree of a made-up checkpoint to a directory, for readers that are not ours.
 * usage: view_tool types|many|big DIR */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zf/model/build.h>
#include <zf/view.h>

static struct zf_err err;

static void check(bool ok, const char *what)
{
    char text[800];

    if (!ok) {
        (void)fprintf(stderr, "%s: %s\n", what, zf_err_text(&err, text, sizeof text));
        exit(1);
    }
}

/* A tensor of all byte values over and over, or of zeros without a source. */
static struct zf_draft *add(struct zf_build *b, const char *name, enum zf_dtype t,
                            const uint64_t *shape, uint32_t ndim)
{
    uint64_t n = 0, elems = 1;

    zf_err_clear(&err);
    check(zf_dtype_size(t, ndim, shape, &n), name);
    for (uint32_t d = 0; d < ndim; d++)
        elems *= shape[d];
    struct zf_draft *d = zf_build_tensor(b, (struct zf_spot){"", name, strlen(name)},
                                         (struct zf_type){t, ndim, shape}, &err);
    check(d, name);
    struct zf_source *s = NULL;
    if (n < 1 << 20) {
        unsigned char *p = malloc(n + 1);

        for (uint64_t i = 0; p && i < n; i++)
            p[i] = t == ZF_DT_BOOL ? i & 1 : (unsigned char)(i * 7 + i / 256);
        check(p && (s = zf_mem_new("made", p, n + 1, true, &err)), name);
    }
    check(zf_draft_flat(d, 0, elems, (struct zf_from){.src = s}, &err), name);
    zf_source_unref(&s);
    return d;
}

/* Every type, in every number of dimensions that matters. */
static void add_types(struct zf_build *b)
{
    static const uint64_t cube[] = {2, 130, 2}, none[] = {3, 0, 5};
    char name[64];

    for (int t = 0; t < ZF_DT_COUNT; t++) {
        const char *suffix = zf_dtype_info((enum zf_dtype)t)->suffix;
        static const char *const kind[] = {"scalar", "vector", "none", "cube"};

        for (uint32_t k = 0; k < 4; k++) {
            const uint64_t *shape = k == 2 ? none : cube + (k == 1);

            (void)snprintf(name, sizeof name, "%s.%s", suffix, kind[k]);
            add(b, name, (enum zf_dtype)t, shape, k == 2 ? 3 : k);
        }
    }
    struct zf_draft *d = add(b, "tied \"a\"\\", ZF_DT_BF16, cube, 3);
    check(zf_build_alias(b, d, "a tie \xe2\x9c\x93", 9, &err), "tie");
    (void)add(b, "__metadata__", ZF_DT_F32, cube, 1);
    (void)add(b, "not \xff utf-8", ZF_DT_F32, cube, 1);
    (void)add(b, "ctl\x01\n\x7f", ZF_DT_F32, cube, 1);
    (void)add(b, "", ZF_DT_F32, cube, 1);
}

static void add_many(struct zf_build *b)
{
    uint64_t one = 1;
    char name[32];

    for (int i = 0; i < 70000; i++) {
        (void)snprintf(name, sizeof name, "w%d", i);
        (void)add(b, name, ZF_DT_U8, &one, 1);
    }
}

static void add_big(struct zf_build *b)
{
    uint64_t small = 5, more = ((uint64_t)1 << 32) + 3, full = UINT32_MAX;

    (void)add(b, "a", ZF_DT_U8, &more, 1);
    (void)add(b, "b", ZF_DT_U8, &small, 1);
    (void)add(b, "c", ZF_DT_U8, &full, 1);
    (void)add(b, "d", ZF_DT_U8, &small, 1);
}

/* One file; zeros without a source become a hole. */
static void write_file(struct zf_tree *t, const struct zf_stat *s, const char *path)
{
    static char buf[1 << 16];
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const struct zf_map *map = zf_tree_map(t, s->ino, &err);
    size_t n;

    check(fd >= 0 && ftruncate(fd, (off_t)s->size) == 0, path);
    for (uint64_t at = 0; at < s->size; at += n) {
        struct zf_run run = map ? zf_map_at(map, at) : (struct zf_run){.kind = ZF_RUN_MADE};

        if (run.kind == ZF_RUN_ZERO) {
            n = run.len;
            continue;
        }
        size_t want = run.len && run.len < sizeof buf ? (size_t)run.len : sizeof buf;
        check(t->ops->read(t, s->ino, buf, want, at, &n, &err) && n > 0, path);
        check(pwrite(fd, buf, n, (off_t)at) == (ssize_t)n, path);
    }
    check(close(fd) == 0, path);
}

static void write_dir(struct zf_tree *t, uint64_t dir, const char *to, int depth)
{
    char name[256], path[4096];
    struct zf_stat s;

    check(mkdir(to, 0700) == 0, to);
    for (uint64_t at = 0; t->ops->entry(t, dir, at, name, &s); at++) {
        (void)snprintf(path, sizeof path, "%s/%s", to, name);
        if (s.kind == ZF_NODE_FILE)
            write_file(t, &s, path);
        else if (depth < 8)
            write_dir(t, s.ino, path, depth + 1);
    }
}

int main(int argc, char **argv)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_build *b = zf_build_new(NULL, &lim, false, &err);
    struct zf_stat s;

    if (argc != 3 || !b)
        return 2;
    bool types = strcmp(argv[1], "types") == 0;
    if (types)
        add_types(b);
    else if (strcmp(argv[1], "many") == 0)
        add_many(b);
    else
        add_big(b);
    struct zf_checkpoint *c = zf_build_seal(b, "made", "by a test", &err);
    check(c, "seal");
    zf_auto(tree) struct zf_tree *t =
        zf_tree_new(c, &(struct zf_view_opts){.lim = &lim, .shard_size = types ? 3000 : 0}, &err);
    check(t, "tree");
    if (types) {
        write_dir(t, ZF_TREE_ROOT, argv[2], 0);
        return 0;
    }
    check(zf_tree_walk(t, "pytorch_model.bin", &s), "pytorch_model.bin");
    write_file(t, &s, argv[2]);
    return 0;
}

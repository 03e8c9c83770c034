/* SPDX-License-Identifier: Apache-2.0 */
#include "export_plan.h"

#include <fnmatch.h>
#include <string.h>

#include <zf/view.h>

#include "each.h"

/* One PATH while it is looked up. */
struct look {
    struct export_plan *plan;
    const char *glob; /* or NULL */
    size_t base;      /* bytes of a tree path that the destination does not repeat */
};

static bool add(void *ctx, const char *path, const struct zf_stat *st, struct zf_err *err)
{
    const struct look *look = ctx;
    struct export_plan *p = look->plan;

    if (st->kind != ZF_NODE_FILE || (look->glob && fnmatch(look->glob, path, 0) != 0)) {
        return true;
    }
    /* Room doubles whenever the count reaches a power of two. */
    if ((p->n & (p->n - 1)) == 0) {
        struct export_file *v = realloc(p->file, (p->n ? p->n * 2ul : 1) * sizeof *v);

        if (!v) {
            return zf_fail_sys(err, "plan the export");
        }
        p->file = v;
    }
    char *from = strdup(path);
    if (!from) {
        return zf_fail_sys(err, "plan the export");
    }
    p->file[p->n] = (struct export_file){
        .from = from, .to = from + look->base, .st = *st, .leader = p->n, .follows = UINT32_MAX};
    p->n++;
    return true;
}

/* Takes out what says nothing: empty components and ".". */
static char *normal(const char *path)
{
    char *out = malloc(strlen(path) + 2), *at = out;

    if (!out) {
        return NULL;
    }
    for (;;) {
        path += strspn(path, "/");
        size_t n = strcspn(path, "/");
        if (n == 0) {
            break;
        }
        if (n != 1 || path[0] != '.') {
            memcpy(at, path, n);
            at += n;
            *at++ = '/';
        }
        path += n;
    }
    at -= at > out;
    *at = '\0';
    return out;
}

/* Where the last component before byte n begins. */
static size_t dir_len(const char *path, size_t n)
{
    while (n > 0 && path[n - 1] != '/') {
        n--;
    }
    return n;
}

static bool look_up(struct export_plan *p, struct zf_tree *tree, const char *path, bool all,
                    struct zf_err *err)
{
    struct look look = {.plan = p};
    struct each each = {.tree = tree, .all = all, .file = add, .ctx = &look};
    uint32_t before = p->n;
    struct zf_stat st;

    if (zf_tree_walk(tree, path, &st)) {
        look.base =
            st.kind == ZF_NODE_DIR ? strlen(path) + (*path != '\0') : dir_len(path, strlen(path));
        return st.kind == ZF_NODE_DIR ? each_file(&each, path, err) : add(&look, path, &st, err);
    }
    if (strpbrk(path, "*?[")) {
        look.glob = path;
        look.base = dir_len(path, strcspn(path, "*?[\\"));
        if (!each_file(&each, "", err)) {
            return false;
        }
        /* As `zerofs ls` does: a pattern may well mean a presentation. */
        if (p->n == before) {
            zf_tree_list_all(tree);
            each.all = true;
            if (!each_file(&each, "", err)) {
                return false;
            }
        }
    }
    return p->n > before || zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE,
                                    strpbrk(path, "*?[") ? "no file of this checkpoint matches"
                                                         : "no such file in this checkpoint");
}

static int by_to(const void *a, const void *b, void *ctx)
{
    const struct export_file *f = ctx;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    int c = strcmp(f[i].to, f[j].to);

    return c ? c : (i > j) - (i < j);
}

static int by_ino(const void *a, const void *b, void *ctx)
{
    const struct export_file *f = ctx;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;

    return f[i].st.ino != f[j].st.ino ? (f[i].st.ino > f[j].st.ino ? 1 : -1) : (i > j) - (i < j);
}

/* The same file asked for twice is copied once (marked done); two files under one name
 * are refused. */
static bool check_names(struct export_plan *p, uint32_t *order, struct zf_err *err)
{
    qsort_r(order, p->n, sizeof *order, by_to, p->file);
    for (uint32_t k = 1; k < p->n; k++) {
        struct export_file *a = &p->file[order[k - 1]], *b = &p->file[order[k]];

        if (strcmp(a->to, b->to) != 0) {
            continue;
        }
        if (a->st.ino != b->st.ino) {
            return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                           "%.100s and %.100s would both become %.60s: export them one by one, or "
                           "through a pattern, which keeps directories",
                           a->from, b->from, b->to);
        }
        b->done = true;
    }
    return true;
}

static void tie(struct export_plan *p, uint32_t *order)
{
    uint32_t last = UINT32_MAX;

    qsort_r(order, p->n, sizeof *order, by_ino, p->file);
    for (uint32_t k = 0; k < p->n; k++) {
        struct export_file *f = &p->file[order[k]];

        if (f->done) {
            continue;
        }
        if (last != UINT32_MAX && p->file[last].st.ino == f->st.ino) {
            f->leader = p->file[last].leader;
            p->file[last].follows = order[k];
        } else {
            p->bytes += f->st.size;
        }
        last = order[k];
    }
}

/* Drops what check_names found to be there twice. */
static void drop_doubles(struct export_plan *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n; i++) {
        if (p->file[i].done) {
            free(p->file[i].from);
        } else {
            p->file[n] = p->file[i];
            p->file[n].leader = n;
            n++;
        }
    }
    p->n = n;
}

bool export_plan_make(struct export_plan *p, struct zf_tree *tree, char **path, int n, bool all,
                      struct zf_err *err)
{
    for (int i = 0; i < n; i++) {
        zf_auto(mem) char *clean = normal(path[i]);

        if (!clean) {
            return zf_fail_sys(err, "plan the export");
        }
        if (!look_up(p, tree, clean, all, err)) {
            return zf_err_in(err, "%s", path[i]);
        }
    }
    zf_auto(mem) uint32_t *order = malloc((p->n + 1ul) * sizeof *order);
    if (!order) {
        return zf_fail_sys(err, "plan the export");
    }
    for (uint32_t i = 0; i < p->n; i++) {
        order[i] = i;
    }
    if (!check_names(p, order, err)) {
        return false;
    }
    drop_doubles(p);
    for (uint32_t i = 0; i < p->n; i++) {
        order[i] = i;
    }
    tie(p, order);
    return true;
}

void export_plan_fini(struct export_plan *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        free(p->file[i].from);
    }
    free(p->file);
    *p = (struct export_plan){0};
}

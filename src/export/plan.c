/* SPDX-License-Identifier: Apache-2.0 */
/* Each PATH is looked up as a file, a directory or a pattern; its files are added to one list.  The list is sorted by
 * destination: two entries with the same source are one file requested twice, and one is dropped; two with different
 * sources are a name clash.  Then it is sorted by inode: neighbours with the same inode are tied tensors, of which the
 * first is copied and the others become hard links. */

#include <zf/export.h>

#include <string.h>

#include <zf/base/vec.h>
#include <zf/each.h>

/* One PATH while it is looked up. */
struct look {
    struct zf_export_plan *plan;
    struct zf_tree *tree;
    bool all;
    size_t base; /* length of the path prefix that is left out in the destination */
};

static bool plan_add(void *ctx, const char *path, const struct zf_stat *st, struct zf_err *err)
{
    const struct look *look = ctx;
    struct zf_export_plan *p = look->plan;

    if (st->kind != ZF_NODE_FILE)
        return true;
    struct zf_export_file *file = zf_vec_grow(p->file, p->n, 1, &p->cap, sizeof *file, err);
    if (!file)
        return false;
    p->file = file;
    char *from = strdup(path);
    if (!from)
        return zf_fail_sys(err, "plan the export");
    p->file[p->n] = (struct zf_export_file){
        .from = from, .to = from + look->base, .st = *st, .link_of = p->n, .next_link = UINT32_MAX};
    p->n++;
    return true;
}

/* Start of the last component within path[n]. */
static size_t plan_dir_len(const char *path, size_t n)
{
    while (n > 0 && path[n - 1] != '/')
        n--;
    return n;
}

/* Adds all files below a directory that a pattern matches, as cp -r does. */
static bool plan_add_dir(void *ctx, const char *path, const struct zf_stat *st, struct zf_err *err)
{
    const struct look *look = ctx;
    const struct zf_each below = {
        .tree = look->tree, .all = look->all, .file = plan_add, .ctx = ctx};

    (void)st;
    return zf_each_file(&below, path, err);
}

/* content: the path was given with a '/' at its end. */
static bool plan_look_up(struct look *look, const char *path, bool content, struct zf_err *err)
{
    struct zf_each each = {.tree = look->tree, .all = look->all, .file = plan_add, .ctx = look};
    struct zf_stat st;

    look->base = plan_dir_len(path, strlen(path));
    if (zf_tree_walk(look->tree, path, &st)) {
        if (st.kind != ZF_NODE_DIR)
            return plan_add(look, path, &st, err);
        look->base = content && *path ? strlen(path) + 1 : look->base;
        return zf_each_file(&each, path, err);
    }
    each.dir = plan_add_dir;
    look->base = plan_dir_len(path, strcspn(path, "*?[\\"));
    return zf_each_match(&each, path, err);
}

static int plan_by_to(const void *a, const void *b, void *ctx)
{
    const struct zf_export_file *f = ctx;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    int c = strcmp(f[i].to, f[j].to);

    return c ? c : (i > j) - (i < j);
}

static int plan_by_ino(const void *a, const void *b, void *ctx)
{
    const struct zf_export_file *f = ctx;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;

    return f[i].st.ino != f[j].st.ino ? (f[i].st.ino > f[j].st.ino ? 1 : -1) : (i > j) - (i < j);
}

/* The same file asked for twice is copied once (marked done); two files under one name
 * are refused. */
static bool plan_check_names(struct zf_export_plan *p, uint32_t *order, struct zf_err *err)
{
    qsort_r(order, p->n, sizeof *order, plan_by_to, p->file);
    for (uint32_t k = 1; k < p->n; k++) {
        struct zf_export_file *a = &p->file[order[k - 1]], *b = &p->file[order[k]];

        if (strcmp(a->to, b->to) != 0)
            continue;
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

static void plan_tie(struct zf_export_plan *p, uint32_t *order)
{
    uint32_t last = UINT32_MAX;

    qsort_r(order, p->n, sizeof *order, plan_by_ino, p->file);
    for (uint32_t k = 0; k < p->n; k++) {
        struct zf_export_file *f = &p->file[order[k]];

        if (f->done)
            continue;
        if (last != UINT32_MAX && p->file[last].st.ino == f->st.ino) {
            f->link_of = p->file[last].link_of;
            p->file[last].next_link = order[k];
        } else {
            p->bytes += f->st.size;
        }
        last = order[k];
    }
}

/* Drops the duplicates that plan_check_names marked as done. */
static void plan_drop_doubles(struct zf_export_plan *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n; i++) {
        if (p->file[i].done) {
            free(p->file[i].from);
        } else {
            p->file[n] = p->file[i];
            p->file[n].link_of = n;
            n++;
        }
    }
    p->n = n;
}

bool zf_export_plan_make(struct zf_export_plan *p, struct zf_tree *tree, char **path, int n,
                         bool all, struct zf_err *err)
{
    for (int i = 0; i < n; i++) {
        struct look look = {.plan = p, .tree = tree, .all = all};
        zf_auto(mem) char *clean = zf_each_normal(path[i]);
        size_t len = strlen(path[i]);

        if (!clean)
            return zf_fail_sys(err, "plan the export");
        if (!plan_look_up(&look, clean, len && path[i][len - 1] == '/', err))
            return false;
    }
    zf_auto(mem) uint32_t *order = malloc((p->n + 1ul) * sizeof *order);
    if (!order)
        return zf_fail_sys(err, "plan the export");
    for (uint32_t i = 0; i < p->n; i++)
        order[i] = i;
    if (!plan_check_names(p, order, err))
        return false;
    plan_drop_doubles(p);
    for (uint32_t i = 0; i < p->n; i++)
        order[i] = i;
    plan_tie(p, order);
    return true;
}

void zf_export_plan_rename(struct zf_export_plan *p, const char *name)
{
    p->file[0].to = name;
}

void zf_export_plan_fini(struct zf_export_plan *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        free(p->file[i].from);
    free(p->file);
    *p = (struct zf_export_plan){0};
}

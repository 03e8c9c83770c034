/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs map: which bytes of which files a tensor is made of, and which tensors use given bytes of a file. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/nearest.h>
#include <zf/each.h>
#include <zf/inspect/refer.h>
#include <zf/model/origins.h>

#include "open.h"
#include "page.h"
#include "param.h"
#include "print.h"

/* Adds a box as "[0:2, 5, :]", the syntax of zerofs show. */
static void map_put_box(struct zf_out *out, const struct zf_tensor *t, const uint64_t *start,
                        const uint64_t *count)
{
    zf_out_str(out, "[");
    for (uint32_t d = 0; d < t->ndim; d++) {
        zf_out_str(out, d ? ", " : "");
        if (count[d] == t->shape[d]) {
            zf_out_str(out, ":");
            continue;
        }
        zf_out_dec(out, start[d]);
        if (count[d] != 1)
            zf_out_fmt(out, ":%" PRIu64, start[d] + count[d]);
    }
    zf_out_str(out, "]");
}

static void map_add_numbers(struct zf_out *out, const char *key, const uint64_t *v, uint32_t n)
{
    zf_out_str(out, key);
    for (uint32_t d = 0; d < n; d++) {
        zf_out_add(out, ",", d > 0);
        zf_out_dec(out, v[d]);
    }
    zf_out_str(out, "]");
}

/* ---- of a tensor ------------------------------------------------------------------------------- */

struct map_table {
    const struct zf_tensor *t;
    struct zf_origins *origins;
    enum zf_origin_kind kind; /* kind of the lines printed last … */
    const char *where;        /* … and their file, borrowed; NULL: nothing was printed */
    struct zf_err *err;
};

/* Prints the heading of a file's lines, or of bytes that are in no file. */
static void map_print_where(struct map_table *m, const struct zf_origin *o)
{
    static const char *const none[] = {
        [ZF_ORIGIN_SOURCE] = "not stored as such: a value of ",
        [ZF_ORIGIN_MEMORY] = "not stored as such",
        [ZF_ORIGIN_ZERO] = "in no file: zeros",
        [ZF_ORIGIN_MADE] = "not stored as such: computed",
        [ZF_ORIGIN_LOST] = "lost: ",
    };
    const char *where = o->src ? o->src->name : o->lost ? o->lost->file : "";

    if (m->where && m->kind == o->kind && strcmp(m->where, where) == 0)
        return;
    m->where = where;
    m->kind = o->kind;
    if (o->kind != ZF_ORIGIN_FILE)
        (void)fputs(none[o->kind], stdout);
    print_name(stdout, where);
    if (o->kind == ZF_ORIGIN_LOST) {
        (void)fputs(*where ? " " : "", stdout);
        print_name(stdout, o->lost->why);
    }
    (void)putchar('\n');
}

static bool map_print_origin(void *ctx, const struct zf_origin *o)
{
    struct map_table *m = ctx;

    map_print_where(m, o);
    if (o->kind == ZF_ORIGIN_FILE)
        (void)printf("%14" PRIu64 " %14" PRIu64 "  ", o->off, o->bytes);
    else
        (void)printf("%14s %14s  ", "-", "-");
    if (o->start) {
        zf_auto(out) struct zf_out box = {0};

        map_put_box(&box, m->t, o->start, o->count);
        if (!zf_out_ok(&box, m->err))
            return false;
        (void)fputs(zf_out_text(&box), stdout);
    }
    if (o->stride) {
        (void)fputs("  strides ", stdout);
        for (uint32_t d = 0; d < m->t->ndim; d++)
            (void)printf("%s%" PRIu64, d ? ", " : "", o->stride[d]);
    }
    if (o->codec)
        (void)printf("  %s, from byte %" PRIu64 " on", o->codec, o->skip);
    if (o->swap)
        (void)printf("  each %" PRIu32 " bytes swapped", o->swap);
    (void)putchar('\n');
    return true;
}

static bool map_print_piece(void *ctx, const struct zf_extent *e)
{
    struct map_table *m = ctx;

    return zf_origins_of(m->origins, e, map_print_origin, m);
}

static bool map_print_tensor(const char *path, const struct zf_node_tensor *x, struct zf_err *err)
{
    zf_auto(mem) struct zf_origins *origins = zf_origins_new(x->tensor, err);
    struct map_table m = {.t = x->tensor, .origins = origins, .err = err};

    if (!origins)
        return false;
    print_name(stdout, path);
    (void)printf("  %s ", zf_dtype_info(x->dtype)->suffix);
    (void)print_shape(stdout, x->tensor);
    if (x->dtype != x->tensor->dtype)
        (void)printf(", cast from %s", zf_dtype_info(x->tensor->dtype)->suffix);
    (void)printf("\n%14s %14s  %s\n", "offset", "bytes", "elements");
    return zf_map_each_extent(x->tensor->data, map_print_piece, &m);
}

static bool map_json_tensor(const char *path, const struct zf_node_tensor *x, struct zf_err *err)
{
    zf_auto(out) struct zf_out out = {0};

    print_put_text(&out, "{\"path\":", path);
    print_put_text(&out, ",\"dtype\":", zf_dtype_info(x->dtype)->suffix);
    map_add_numbers(&out, ",\"shape\":[", x->tensor->shape, x->tensor->ndim);
    zf_out_str(&out, ",\"sources\":");
    zf_tree_sources(x, &out);
    zf_out_str(&out, "}\n");
    if (!zf_out_ok(&out, err))
        return false;
    (void)fputs(zf_out_text(&out), stdout);
    return true;
}

struct map_tensors {
    struct zf_tree *tree;
    bool json, any;
};

static bool map_add(void *ctx, const char *path, const struct zf_stat *st, struct zf_err *err)
{
    struct map_tensors *m = ctx;
    struct zf_node_tensor x;

    if (!zf_tree_tensor(m->tree, st->ino, &x))
        return true;
    if (m->any && !m->json)
        (void)putchar('\n');
    m->any = true;
    return (m->json ? map_json_tensor : map_print_tensor)(path, &x, err);
}

static bool map_tensors(struct map_tensors *m, const char *word, struct zf_err *err)
{
    const struct zf_each each = {.tree = m->tree, .file = map_add, .ctx = m};
    zf_auto(mem) char *path = zf_each_normal(word);
    struct zf_stat st;
    struct param at;

    if (!path)
        return zf_fail_sys(err, "map");
    if (param_walk(m->tree, path, &at))
        return (m->json ? map_json_tensor : map_print_tensor)(path, &at.x, err);
    if (zf_tree_walk(m->tree, path, &st) && st.kind == ZF_NODE_DIR)
        return zf_each_file(&each, path, err);
    return param_match(m->tree, path, &each, err);
}

/* ---- of a file --------------------------------------------------------------------------------- */

struct map_file {
    const struct zf_checkpoint *c;
    const char *given;
    char *name;          /* the file name in `given` */
    uint64_t first, end; /* bytes [first, end); end UINT64_MAX: to the end of the file */
    zf_refer_list files;
    struct zf_source *found; /* an item of `files`, or NULL */
    const struct zf_tensor *last;
    bool json;
    struct page page;
    uint64_t n; /* number of tensors printed */
    struct zf_err *err;
};

static void map_file_fini(struct map_file *f)
{
    free(f->name);
    zf_vec_fini(&f->files);
}

/* True if path ends in name, or if both lead to the same local file. */
static bool map_is_called(const char *path, const char *name)
{
    const size_t n = strlen(path), k = strlen(name);

    return k > 0 && k <= n && strcmp(path + n - k, name) == 0 &&
           (k == n || name[0] == '/' || path[n - k - 1] == '/');
}

static bool map_is_same(const char *path, const char *name)
{
    zf_auto(mem) char *a = realpath(path, NULL);
    zf_auto(mem) char *b = a ? realpath(name, NULL) : NULL;

    return b && strcmp(a, b) == 0;
}

static bool map_ambiguous(const struct map_file *f, const struct zf_source *other)
{
    return zf_fail(f->err, ZF_E_USAGE, ZF_OFF_NONE,
                   "\"%.200s\" could be %.300s or %.300s; give more of its path", f->name,
                   f->found->name, other->name);
}

/* Sets f->found to the file called f->name, if there is one.  False: there are several. */
static bool map_find(struct map_file *f)
{
    f->found = NULL;
    for (size_t i = 0; i < f->files.n; i++) {
        if (map_is_same(f->files.at[i]->name, f->name)) {
            f->found = f->files.at[i];
            return true;
        }
    }
    for (size_t i = 0; i < f->files.n; i++) {
        if (!map_is_called(f->files.at[i]->name, f->name))
            continue;
        if (f->found)
            return map_ambiguous(f, f->files.at[i]);
        f->found = f->files.at[i];
    }
    return true;
}

/* Parses "BYTE" or "BYTE-BYTE", whose last byte is included. */
static bool map_range(struct map_file *f, const char *text)
{
    char *end;

    errno = 0;
    f->first = strtoull(text, &end, 10);
    f->end = f->first + 1;
    if (*end == '-' && end[1] >= '0' && end[1] <= '9')
        f->end = strtoull(end + 1, &end, 10) + 1;
    return *end == '\0' && errno == 0 && f->end > f->first;
}

static bool map_no_file(struct map_file *f)
{
    zf_auto(nearest) struct zf_nearest near = {.want = f->name};
    char hint[400];

    for (size_t i = 0; i < f->files.n; i++) {
        const char *slash = strrchr(f->files.at[i]->name, '/');

        zf_nearest_offer(&near, slash ? slash + 1 : f->files.at[i]->name);
    }
    return zf_fail(f->err, ZF_E_NOENT, ZF_OFF_NONE, "no tensor has bytes in a file \"%.300s\"%s",
                   f->name, zf_nearest_text(&near, hint, sizeof hint));
}

/* Finds the file and its byte range; a file name may contain a colon. */
static bool map_find_file(struct map_file *f)
{
    char *colon = strrchr(f->name, ':');

    f->end = UINT64_MAX;
    if (!map_find(f))
        return false;
    if (!f->found && colon && colon[1] >= '0' && colon[1] <= '9') {
        if (!map_range(f, colon + 1)) {
            return zf_fail(f->err, ZF_E_USAGE, ZF_OFF_NONE,
                           "\"%.60s\" is not a range of bytes; write NAME:4096-8191", colon + 1);
        }
        *colon = '\0';
        if (!map_find(f))
            return false;
    }
    if (!f->found)
        return map_no_file(f);
    if (f->first >= f->found->size) {
        return zf_fail(f->err, ZF_E_USAGE, ZF_OFF_NONE,
                       "byte %" PRIu64 " is beyond the end of %.300s (%" PRIu64 " bytes)", f->first,
                       f->found->name, f->found->size);
    }
    f->end = f->end < f->found->size ? f->end : f->found->size;
    return true;
}

static bool map_json_hit(struct map_file *f, const struct zf_refer *r, const char *path)
{
    zf_auto(out) struct zf_out out = {0};

    if (r->tensor != f->last) {
        print_put_text(&out, f->last ? "]}\n{\"path\":" : "{\"path\":", path);
        print_put_text(&out, ",\"dtype\":", zf_dtype_info(r->tensor->dtype)->suffix);
        map_add_numbers(&out, ",\"shape\":[", r->tensor->shape, r->tensor->ndim);
        print_put_text(&out, ",\"file\":", f->found->name);
        zf_out_str(&out, ",\"boxes\":[");
    } else {
        zf_out_str(&out, ",");
    }
    map_add_numbers(&out, "{\"start\":[", r->start, r->tensor->ndim);
    map_add_numbers(&out, ",\"count\":[", r->count, r->tensor->ndim);
    zf_out_fmt(&out, ",\"offset\":%" PRIu64 ",\"bytes\":%" PRIu64 "%s", r->first, r->end - r->first,
               r->exact ? "}" : ",\"exact\":false}");
    (void)fputs(zf_out_text(&out), stdout);
    return zf_out_ok(&out, f->err);
}

static bool map_hit(void *ctx, const struct zf_refer *r)
{
    struct map_file *f = ctx;
    zf_auto(mem) char *path = param_path(r->set, r->tensor);

    if (!path)
        return zf_fail_sys(f->err, "map");
    f->n += r->tensor != f->last;
    if (!f->json) {
        zf_auto(out) struct zf_out text = {0};

        zf_out_str(&text, path);
        map_put_box(&text, r->tensor, r->start, r->count);
        zf_out_str(&text, r->exact ? "" : "  at most");
        if (!zf_out_ok(&text, f->err))
            return false;
        const int used = printf("%14" PRIu64 " %14" PRIu64 "  ", r->first, r->end - r->first);
        (void)page_last(&f->page, used > 0 ? (size_t)used : 0, 0, zf_out_text(&text));
        (void)putchar('\n');
    } else if (!map_json_hit(f, r, path)) {
        return false;
    }
    f->last = r->tensor;
    return true;
}

static void map_file_head(const struct map_file *f)
{
    print_name(stdout, f->found->name);
    (void)printf("  bytes %" PRIu64 " to %" PRIu64 "\n%14s %14s  %s\n", f->first, f->end - 1,
                 "offset", "bytes", "elements");
}

static bool map_file(struct map_file *f)
{
    struct zf_err *err = f->err;

    f->name = strdup(f->given);
    if (!f->name)
        return zf_fail_sys(err, "map");
    if (!zf_refer_files(f->c, &f->files, err) || !map_find_file(f))
        return false;
    zf_err_clear(err);
    if (!f->json)
        map_file_head(f);
    const bool ok =
        zf_refer_each(f->c, f->found, f->first, f->end, map_hit, f, err) && err->code == ZF_OK;
    if (f->json && f->n > 0)
        (void)puts("]}");
    else if (!f->json && f->n == 0)
        (void)puts("no tensor has any of these bytes");
    return ok;
}

/* ---- the command ------------------------------------------------------------------------------- */

int cmd_map(const struct opts *o, int n, char **word)
{
    struct zf_err err;

    if ((n == 2) == (o->file != NULL))
        return cmd_usage(&cmd_table[CMD_MAP], "needs %s", cmd_table[CMD_MAP].needs);
    zf_auto(tree) struct zf_tree *tree = open_asked(word[0], o, &err);
    if (!tree)
        return cmd_fail(&err);
    if (n == 2) {
        struct map_tensors m = {.tree = tree, .json = o->json};

        (void)open_listing(tree, o, false);
        return cmd_finish(map_tensors(&m, word[1], &err) ? EXIT_OK : cmd_negative(&err));
    }
    struct map_file f = {.c = zf_tree_checkpoint(tree),
                         .given = o->file,
                         .json = o->json,
                         .page = page_of(stdout, o->color),
                         .err = &err};
    const bool ok = map_file(&f);
    map_file_fini(&f);
    return cmd_finish(!ok ? cmd_negative(&err) : f.n > 0 ? EXIT_OK : EXIT_NEGATIVE);
}

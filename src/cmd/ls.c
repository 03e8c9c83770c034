/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs ls: lists the tree without a mount. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include <zf/base/name.h>
#include <zf/codec/json.h>
#include <zf/each.h>
#include <zf/inspect/outline.h>
#include <zf/overlay/index.h>

#include "open.h"
#include "page.h"
#include "print.h"

struct ls {
    struct zf_tree *tree;
    const struct opts *o;
    bool all;
    struct page page;
};

/* The tensor that a file is named after: tied tensors share one inode, so the path decides. */
static const struct zf_tensor *ls_named(const struct zf_node_tensor *x, const char *path)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    const struct zf_set *s = x->set;
    uint32_t owner = x->tensor->alias_of;

    for (uint32_t i = 0; i < s->n; i++) {
        const struct zf_tensor *t = &s->tensor[i];
        const char *suffixes[] = {zf_dtype_info(x->dtype)->suffix, "npy"};

        for (size_t k = 0; t->alias_of == owner && k < 2; k++) {
            char name[ZF_NAME_MAX + 1], suffix[32];

            (void)snprintf(suffix, sizeof suffix, ".%s", suffixes[k]);
            (void)zf_name_encode(name, t->name, t->name_len, suffix);
            if (strcmp(name, file) == 0)
                return t;
        }
    }
    return x->tensor;
}

/* Finds the tensor that a file shows, with the name under which it is listed. */
static bool ls_tensor(const struct ls *ls, const char *path, const struct zf_stat *st,
                      struct zf_node_tensor *out)
{
    bool tensor = st->kind == ZF_NODE_FILE && zf_tree_tensor(ls->tree, st->ino, out);

    if (tensor && st->nlink > 1)
        out->tensor = ls_named(out, path);
    return tensor;
}

/* Prints a size; returns the columns used, as do the functions below. */
static size_t ls_show_size(const struct ls *ls, uint64_t size)
{
    int used;

    if (ls->o->human)
        used = printf("%10s  ", number_bytes(size).text);
    else
        used = printf("%15" PRIu64 "  ", size);
    return used > 0 ? (size_t)used : 0;
}

static size_t ls_show_long(const struct ls *ls, const struct zf_stat *st,
                           const struct zf_node_tensor *x)
{
    const bool lost = x ? x->tensor->lost : st->lost;
    const char *behind = lost ? "  (damaged)  " : "  ";
    size_t used = ls_show_size(ls, st->size) + 9 + strlen(behind);

    (void)printf("%-8s ", x ? zf_dtype_info(x->dtype)->suffix : "-");
    if (x) {
        used += print_shape(stdout, x->tensor);
    } else {
        used++;
        (void)putchar('-');
    }
    (void)fputs(behind, stdout);
    return used;
}

static void ls_show_tie(const struct ls *ls, const struct zf_node_tensor *x, size_t used)
{
    const struct zf_tensor *same = &x->set->tensor[x->tensor->alias_of];

    if (same != x->tensor) {
        (void)fputs(" -> ", stdout);
        (void)page_last(&ls->page, used + 4, 0, same->name);
    }
}

static void ls_show_json(const char *path, const struct zf_stat *st, const struct zf_node_tensor *x)
{
    json_t *j = x ? zf_index_tensor(x->set, x->tensor) : json_object();

    /* Below as/ the size and dtype are those after the cast, not those stored. */
    if (x)
        (void)json_object_set_new(j, "dtype", json_string(zf_dtype_info(x->dtype)->suffix));
    if (st->kind == ZF_NODE_DIR)
        (void)json_object_set_new(j, "directory", json_true());
    else
        (void)json_object_set_new(j, "bytes", json_integer((json_int_t)st->size));
    (void)json_object_set_new(j, "path", zf_json_text(path));
    (void)json_dumpf(j, stdout, JSON_COMPACT);
    json_decref(j);
}

static bool ls_show(void *ctx, const char *path, const struct zf_stat *st, struct zf_err *err)
{
    const struct ls *ls = ctx;
    struct zf_node_tensor tensor;
    const struct zf_node_tensor *x = ls_tensor(ls, path, st, &tensor) ? &tensor : NULL;

    (void)err;
    if (ls->o->json) {
        ls_show_json(path, st, x);
    } else {
        size_t used = ls->o->longer ? ls_show_long(ls, st, x) : 0;
        const bool dir = st->kind == ZF_NODE_DIR;

        (void)fputs(dir ? page_look(&ls->page, PAGE_DIR) : "", stdout);
        used = page_last(&ls->page, used, 0, path);
        (void)fputs(dir ? "/" : "", stdout);
        (void)fputs(dir ? page_look_end(&ls->page) : "", stdout);
        if (ls->o->longer && x)
            ls_show_tie(ls, x, used);
    }
    (void)fputc(ls->o->null ? '\0' : '\n', stdout);
    return true;
}

/* Lists a directory's content, a file, or all that matches a pattern. */
static bool ls_list_path(const struct ls *ls, const char *given, struct zf_err *err)
{
    struct zf_each each = {
        .tree = ls->tree, .all = ls->all, .file = ls_show, .dir = ls_show, .ctx = (void *)ls};
    zf_auto(mem) char *path = zf_each_normal(given);
    struct zf_stat st;

    if (!path)
        return zf_fail_sys(err, "list");
    if (zf_tree_walk(ls->tree, path, &st)) {
        if (st.kind != ZF_NODE_DIR)
            return ls_show((void *)ls, path, &st, err);
        each.dir = ls->o->recursive ? NULL : ls_show;
        return ls->o->recursive ? zf_each_file(&each, path, err) : zf_each_entry(&each, path, err);
    }
    return zf_each_match(&each, path, err);
}

/* Lists every file of every set. */
static bool ls_list_all(const struct ls *ls, struct zf_err *err)
{
    const struct zf_each each = {
        .tree = ls->tree, .all = ls->all, .file = ls_show, .ctx = (void *)ls};

    return zf_each_file(&each, "", err);
}

/* Lists all given paths; goes on after one that does not exist. */
static int ls_list_paths(const struct ls *ls, char *const *path, int n)
{
    int code = EXIT_OK;

    for (int i = 0; i < n; i++) {
        struct zf_err err;

        if (!ls_list_path(ls, path[i], &err)) {
            const int failed = cmd_negative(&err);

            code = code > failed ? code : failed;
        }
    }
    return code;
}

/* The most files that are listed by name on a terminal; more are shown as an outline. */
#define LS_MOST 200

static bool ls_is_long(const struct zf_checkpoint *c, const struct opts *o)
{
    uint64_t files = 0;

    for (uint32_t i = 0; i < c->n_sets; i++)
        files += c->set[i].n;
    return files > LS_MOST && isatty(STDOUT_FILENO) == 1 && !o->longer && !o->json && !o->all &&
           !o->recursive && !o->null && o->show.n == 0;
}

/* ---- --tree ------------------------------------------------------------------------------------ */

struct ls_tree {
    const struct opts *o;
    const struct zf_set *set;
    uint32_t indent;
    struct page page;
};

/* Prints the columns in front of the name, which may be of any length.  Returns their width. */
static size_t ls_tree_print(uint64_t elems, uint64_t bytes, const char *what)
{
    const int used =
        printf("%8s %10s  %-24s ", number_short(elems).text, number_bytes(bytes).text, what);

    return used > 0 ? (size_t)used : 0;
}

static void ls_tree_what(char out[96], const struct zf_outline_line *line)
{
    size_t at = 0;

    out[0] = '\0';
    if (line->times > 1)
        at = (size_t)snprintf(out, 96, "%" PRIu64 " x ", line->times);
    if (!line->tensor) {
        (void)snprintf(out + at, 96 - at, "%" PRIu64 " tensor%s", line->tensors,
                       line->tensors == 1 ? "" : "s");
        return;
    }
    at += (size_t)snprintf(out + at, 96 - at, "%s [", zf_dtype_info(line->tensor->dtype)->suffix);
    for (uint32_t d = 0; d < line->tensor->ndim && at < 72; d++) {
        at += (size_t)snprintf(out + at, 96 - at, "%s%" PRIu64, d ? ", " : "",
                               line->tensor->shape[d]);
    }
    (void)snprintf(out + at, 96 - at, "]");
}

static void ls_tree_json(const struct ls_tree *t, const struct zf_outline_line *line)
{
    json_t *j = json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:I}", "set", zf_json_text(t->set->path),
                          "path", zf_json_text(line->path), "depth", (json_int_t)line->depth,
                          "times", (json_int_t)line->times, "tensors", (json_int_t)line->tensors,
                          "elements", (json_int_t)line->elems, "bytes", (json_int_t)line->bytes);

    if (line->tensor) {
        (void)json_object_set_new(j, "dtype",
                                  json_string(zf_dtype_info(line->tensor->dtype)->suffix));
        (void)json_object_set_new(j, "shape", zf_index_shape(line->tensor));
    }
    (void)json_dumpf(j, stdout, JSON_COMPACT);
    (void)putchar('\n');
    json_decref(j);
}

static bool ls_tree_line(void *ctx, const struct zf_outline_line *line, struct zf_err *err)
{
    const struct ls_tree *t = ctx;
    char what[96];

    (void)err;
    if (t->o->depth && line->depth >= t->o->depth)
        return true;
    if (t->o->json) {
        ls_tree_json(t, line);
        return true;
    }
    ls_tree_what(what, line);
    const size_t indent = 2 * ((size_t)line->depth + t->indent);
    size_t used = ls_tree_print(line->elems, line->bytes, what);
    used = page_last(&t->page, used, indent, line->path + line->label);
    if (line->tensor && &t->set->tensor[line->tensor->alias_of] != line->tensor) {
        (void)fputs(" = ", stdout);
        (void)page_last(&t->page, used + 3, 0, t->set->tensor[line->tensor->alias_of].name);
    }
    (void)putchar('\n');
    return true;
}

static void ls_tree_set(const struct zf_set *s)
{
    char what[48];
    uint64_t elems = 0, bytes = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        const struct zf_tensor *t = &s->tensor[i];

        if (t->alias_of == i) {
            bytes += zf_map_size(t->data);
            elems += zf_map_size(t->data) / zf_dtype_info(t->dtype)->bytes;
        }
    }
    (void)snprintf(what, sizeof what, "%" PRIu32 " tensor%s", s->n, s->n == 1 ? "" : "s");
    (void)ls_tree_print(elems, bytes, what);
    print_name(stdout, s->path);
    (void)puts("/");
}

/* Prints sets of c as an outline (zf/inspect/outline.h): the set at `path`, or, if path is NULL, the weights in
 * full and a line for each other set; with --recursive all in full. Errors: ZF_E_NOENT there is no such set. */
static bool ls_tree(const struct zf_checkpoint *c, const char *path, const struct opts *o,
                    struct zf_err *err)
{
    bool found = false;

    for (uint32_t i = 0; i < c->n_sets; i++) {
        const struct zf_set *s = &c->set[i];
        struct ls_tree t = {
            .o = o, .set = s, .indent = s->path[0] != '\0', .page = page_of(stdout, o->color)};

        if (path && strcmp(path, s->path) != 0)
            continue;
        found = true;
        if (!o->json)
            ls_tree_set(s);
        if ((path || !s->path[0] || o->recursive) && !zf_outline(s, ls_tree_line, &t, err))
            return false;
    }
    if (found)
        return true;
    (void)zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE,
                  "there is no set of tensors of this name. List them: zerofs info CKPT");
    return zf_err_in(err, "%s", path);
}

/* Prints the outline of each given set, or of all. */
static int ls_outline(const struct zf_checkpoint *c, const struct opts *o, char **path, int n)
{
    int code = EXIT_OK;

    for (int i = 0; i < n || (i == 0 && n == 0); i++) {
        struct zf_err err;
        zf_auto(mem) char *set = n ? zf_each_normal(path[i]) : NULL;

        if (n && !set) {
            (void)zf_fail_sys(&err, "list");
            return cmd_fail(&err);
        }
        if (!ls_tree(c, set, o, &err)) {
            const int failed = cmd_negative(&err);

            code = code > failed ? code : failed;
        }
    }
    return cmd_finish(code);
}

int cmd_ls(const struct opts *o, int n, char **word)
{
    struct zf_err err;
    zf_auto(tree) struct zf_tree *tree = open_asked(word[0], o, &err);

    if (!tree)
        return cmd_fail(&err);
    const struct zf_checkpoint *c = zf_tree_checkpoint(tree);
    if (o->tree || (n == 1 && ls_is_long(c, o)))
        return ls_outline(c, o, word + 1, n - 1);
    const struct ls ls = {.tree = tree,
                          .o = o,
                          .all = open_listing(tree, o, o->all),
                          .page = page_of(stdout, o->color)};
    if (n > 1 || !o->recursive) {
        char *const top[] = {(char *)"/"};

        return cmd_finish(n > 1 ? ls_list_paths(&ls, word + 1, n - 1) : ls_list_paths(&ls, top, 1));
    }
    return ls_list_all(&ls, &err) ? cmd_finish(EXIT_OK) : cmd_fail(&err);
}

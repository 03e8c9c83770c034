/* SPDX-License-Identifier: Apache-2.0 */
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "index.h"
#include "open.h"
#include "print.h"

struct ls {
    struct zf_tree *tree;
    const char *glob; /* or NULL */
    bool longer, json, all, zero;
    uint64_t shown;
};

static void show_long(const struct ls *ls, const struct zf_stat *st)
{
    struct zf_node_tensor x;

    (void)printf("%15" PRIu64 "  ", st->size);
    if (zf_tree_tensor(ls->tree, st->ino, &x)) {
        (void)printf("%-8s ", zf_dtype_info(x.dtype)->suffix);
        print_shape(stdout, x.tensor);
        (void)fputs(x.tensor->lost ? "  (damaged)  " : "  ", stdout);
    } else {
        (void)fputs("-        -  ", stdout);
    }
}

static void show_json(const struct ls *ls, const char *path, const struct zf_stat *st)
{
    struct zf_node_tensor x;
    bool tensor = zf_tree_tensor(ls->tree, st->ino, &x);
    json_t *j = tensor ? index_tensor(x.set, x.tensor) : json_object();

    /* Under as/ the size and type are those served, not those stored. */
    if (tensor) {
        (void)json_object_set_new(j, "dtype", json_string(zf_dtype_info(x.dtype)->suffix));
    }
    (void)json_object_set_new(j, "bytes", json_integer((json_int_t)st->size));
    (void)json_object_set_new(j, "path", index_string(path, strlen(path)));
    (void)json_dumpf(j, stdout, JSON_COMPACT);
    json_decref(j);
}

static void show(struct ls *ls, const char *path, const struct zf_stat *st)
{
    if (ls->glob && fnmatch(ls->glob, path, 0) != 0) {
        return;
    }
    ls->shown++;
    if (ls->json) {
        show_json(ls, path, st);
    } else {
        if (ls->longer) {
            show_long(ls, st);
        }
        print_name(stdout, path);
    }
    (void)fputc(ls->zero ? '\0' : '\n', stdout);
}

/* What only shows the same tensors in another way. */
static bool is_presentation(const char *name)
{
    static const char *const names[] = {"npy", "as", "hf", "model.safetensors",
                                        "pytorch_model.bin"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Directories still to be listed; paths are malloc'ed. */
struct todo {
    char **path;
    uint64_t *ino;
    size_t n;
};

static bool push(struct todo *todo, const char *dir, const char *name, uint64_t ino)
{
    char **path = realloc(todo->path, (todo->n + 1) * sizeof *path);

    if (!path) {
        return false;
    }
    todo->path = path;
    uint64_t *inos = realloc(todo->ino, (todo->n + 1) * sizeof *inos);
    if (!inos) {
        return false;
    }
    todo->ino = inos;
    if (asprintf(&todo->path[todo->n], "%s%s%s", dir, *dir ? "/" : "", name) < 0) {
        return false;
    }
    todo->ino[todo->n++] = ino;
    return true;
}

/* Files first, then what is below, so that a set stands in one piece. */
static bool list_dir(struct ls *ls, struct todo *todo, const char *dir, uint64_t ino)
{
    const struct zf_tree_ops *ops = ls->tree->ops;
    size_t first = todo->n;
    char name[256];
    struct zf_stat st;
    bool ok = true;

    for (uint64_t at = 0; ok && ops->entry(ls->tree, ino, at, name, &st); at++) {
        char path[4096];

        if (!ls->all && is_presentation(name)) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s%s%s", dir, *dir ? "/" : "", name);
        if (st.kind == ZF_NODE_DIR) {
            ok = push(todo, dir, name, st.ino);
        } else {
            show(ls, path, &st);
        }
    }
    /* A stack gives the last one first; listings read better the other way. */
    for (size_t i = first, j = todo->n; i + 1 < j; i++, j--) {
        char *p = todo->path[i];
        uint64_t k = todo->ino[i];

        todo->path[i] = todo->path[j - 1];
        todo->ino[i] = todo->ino[j - 1];
        todo->path[j - 1] = p;
        todo->ino[j - 1] = k;
    }
    return ok;
}

static bool list_all(struct ls *ls, struct zf_err *err)
{
    struct todo todo = {0};
    bool ok = push(&todo, "", "", ZF_TREE_ROOT);

    while (ok && todo.n > 0) {
        char *path = todo.path[--todo.n];

        ok = list_dir(ls, &todo, path, todo.ino[todo.n]);
        free(path);
    }
    while (todo.n > 0) {
        free(todo.path[--todo.n]);
    }
    free(todo.path);
    free(todo.ino);
    return ok || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for the listing");
}

static int run(const struct cmd *self, int argc, char **argv)
{
    zf_auto(opts) struct opts o = opts_default();
    struct ls ls = {0};
    const struct opt_flag flags[] = {
        {.letter = 'l', .set = &ls.longer},
        {.letter = 'a', .name = "all", .set = &ls.all},
        {.letter = '0', .name = "null", .set = &ls.zero},
        {.name = "json", .set = &ls.json},
        {0},
    };
    struct zf_err err;
    int at, code = opts_parse(&o, self, flags, argc, argv, &at);

    if (code >= 0) {
        return code;
    }
    if (argc - at < 1 || argc - at > 2) {
        return cmd_usage(self, "needs a checkpoint and at most one pattern");
    }
    ls.glob = argv[at + 1];
    zf_auto(tree) struct zf_tree *tree = open_tree(argv[at], &o, &err);
    ls.tree = tree;
    if (!tree || !list_all(&ls, &err)) {
        return cmd_fail(&err);
    }
    /* A pattern may well mean a presentation: look there before saying no. */
    if (ls.shown == 0 && ls.glob && !ls.all) {
        ls.all = true;
        if (!list_all(&ls, &err)) {
            return cmd_fail(&err);
        }
    }
    return cmd_finish(ls.glob && ls.shown == 0 ? EXIT_NEGATIVE : EXIT_OK);
}

const struct cmd cmd_ls = {
    .name = "ls",
    .args = "[-la0] [--json] CKPT [GLOB]",
    .summary = "List the files a mount would show",
    .flags = "  -l                     with size, type and shape\n"
             "  -a, --all              npy/, as/, hf/ and the bulk files too\n"
             "  -0, --null             end names with NUL\n"
             "      --json             one JSON object a line\n\n",
    .run = run,
};

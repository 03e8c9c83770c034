/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs ls --tree. */
#include "ls_tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zf/codec/json.h>
#include <zf/inspect/outline.h>
#include <zf/overlay/index.h>

#include "page.h"
#include "print.h"

struct ls_tree {
    const struct opts *o;
    const struct zf_set *set;
    uint32_t indent;
    struct page page;
};

/* Columns come first: names may be of any length.  Gives how many they are. */
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

bool ls_tree(const struct zf_checkpoint *c, const char *path, const struct opts *o,
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
                  "no set of tensors has this name; zerofs info lists them");
    return zf_err_in(err, "%s", path);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "code.h"

#include <inttypes.h>
#include <zf/codec/code_list.h>
#include <zf/codec/json.h>

#include "kept.h"
#include "print.h"

/* The most names listed in the sentence; --json has all. */
#define MOST_NAMES 3u
/* The most bytes that are scanned, on local and on remote storage. */
#define MOST_BYTES (1ull << 30)
#define MOST_BYTES_FAR (16ull << 20)

struct code_files {
    const struct zf_store *store;
    zf_vec(char *) path;
    bool full; /* memory ran out */
};

static void code_note_path(void *ctx, const struct zf_file_stats *s)
{
    struct code_files *f = ctx;
    const char *path = zf_store_inside(f->store, s->path);
    struct zf_err ignored;

    if (!path) /* outside of the save: the file that named it */
        return;
    char **to = f->full ? NULL : zf_vec_push(&f->path, &ignored);
    if (to)
        *to = strdup(path);
    f->full = f->full || !to || !*to;
}

/* True for files that only zerofs verify scans: their pickles, if any, are spread among the weights. */
static bool code_is_later(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot && strcmp(dot, ".distcp") == 0;
}

struct code_looked {
    struct zf_code_list list;
    uint64_t later, bytes; /* number of files not scanned; bytes that were read */
    bool failed;           /* some of `later` could not be read; a later attempt may succeed */
};

/* Scans a file.  One that could not be read when the checkpoint was opened fails again: counted as not scanned. */
static void code_look(const struct zf_checkpoint *c, const char *path, const struct zf_limits *lim,
                      struct code_looked *to)
{
    const uint64_t most = zf_store_is_far(c->store) ? MOST_BYTES_FAR : MOST_BYTES;
    struct zf_limits how = *lim;
    struct zf_err err;

    if (code_is_later(path) || to->bytes >= most) {
        to->later++;
        return;
    }
    how.pickle_bytes = lim->pickle_bytes < most - to->bytes ? lim->pickle_bytes : most - to->bytes;
    zf_auto(source) struct zf_source *src = zf_store_open(c->store, path, &err);
    if (!src || !zf_code_list_add(&to->list, path, src, &how, &err)) {
        to->failed = true;
        to->later++;
    }
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static json_t *code_place(const struct zf_code_place *p)
{
    json_t *j = json_pack("{s:o}", "file", zf_json_text(p->file));

    if (p->member && *p->member)
        (void)json_object_set_new(j, "member", zf_json_text(p->member));
    if (p->at != ZF_OFF_NONE) {
        (void)json_object_set_new(j, p->packed ? "byte_unpacked" : "byte",
                                  json_integer((json_int_t)p->at));
    }
    return j;
}

static json_t *code_item(const struct zf_code_item *i)
{
    zf_auto(out) struct zf_out name = {0};
    struct zf_err ignored;

    zf_out_fmt(&name, "%s.%s", zf_code_item_module(i), zf_code_item_name(i));
    if (!zf_out_ok(&name, &ignored))
        return NULL;
    return json_pack("{s:o, s:s, s:I, s:o, s:o}", "name", zf_json_text(zf_out_text(&name)), "class",
                     zf_code_class_name(i->is), "files", (json_int_t)i->files, "first",
                     code_place(&i->first), "called",
                     i->called.file ? code_place(&i->called) : json_null());
}

static json_t *code_document(const struct code_looked *k)
{
    json_t *globals = json_array(), *ended = json_array();

    for (struct zf_code_item *i = k->list.items; i; i = i->hh.next)
        (void)json_array_append_new(globals, code_item(i));
    for (size_t i = 0; i < k->list.stop.n; i++) {
        json_t *j = code_place(&k->list.stop.at[i].at);

        (void)json_object_set_new(j, "why", zf_json_text(k->list.stop.at[i].why));
        (void)json_array_append_new(ended, j);
    }
    return json_pack("{s:I, s:I, s:I, s:o, s:o}", "files", (json_int_t)k->list.files, "pickles",
                     (json_int_t)k->list.pickles, "files_left", (json_int_t)k->later, "globals",
                     globals, "ended", ended);
}

static json_t *code_find(const struct zf_checkpoint *c, const struct zf_limits *lim,
                         bool *failed_out)
{
    struct code_files files = {.store = c->store};
    struct code_looked k = {0};

    zf_store_stats(c->store, code_note_path, &files);
    for (size_t i = 0; i < files.path.n; i++) {
        if (files.path.at[i] && !files.full)
            code_look(c, files.path.at[i], lim, &k);
        free(files.path.at[i]);
    }
    zf_vec_fini(&files.path);
    json_t *j = files.full ? NULL : code_document(&k);
    zf_code_list_fini(&k.list);
    *failed_out = k.failed;
    return j;
}

json_t *code_json(const char *path, const struct zf_checkpoint *c, const struct opts *o)
{
    struct zf_err ignored;
    bool failed = false;

    if (c->kept_note) {
        json_t *j = zf_json_load(c->kept_note, strlen(c->kept_note), &o->lim, &ignored);

        if (json_is_object(j))
            return j;
        json_decref(j);
    }
    json_t *j = code_find(c, &o->lim, &failed);
    zf_auto(mem) char *text = j && !failed ? json_dumps(j, JSON_COMPACT) : NULL;
    if (text)
        kept_note(path, o, c, text);
    return j;
}

/* ---- as a sentence --------------------------------------------------------------------------- */

static bool code_is(const json_t *global, const char *class)
{
    return strcmp(print_text(global, "class"), class) == 0;
}

static bool code_is_called(const json_t *global)
{
    return json_is_object(json_object_get(global, "called"));
}

/* Adds the names of a class, "a.B (2 files), c.D (1 file) and 4 more"; called: only those that are called. */
static size_t code_put_names(const json_t *globals, const char *class, bool called,
                             struct zf_out *out)
{
    const json_t *g;
    size_t i, n = 0;

    json_array_foreach(globals, i, g)
    {
        if (!code_is(g, class) || (called && !code_is_called(g)))
            continue;
        if (n < MOST_NAMES) {
            const uint64_t files = print_number(g, "files");

            zf_out_fmt(out, "%s%s", n ? ", " : "", print_text(g, "name"));
            if (!called)
                zf_out_fmt(out, " (%s)", number_of(files, "file").text);
        }
        n++;
    }
    if (n > MOST_NAMES)
        zf_out_fmt(out, " and %" PRIu64 " more", n - MOST_NAMES);
    return n;
}

static bool code_put_class(const json_t *globals, const char *class, struct zf_out *out)
{
    struct zf_out called = {0};
    const size_t from = out->n;

    zf_out_str(out, "loading it with Python would import ");
    if (code_put_names(globals, class, false, out) == 0) {
        zf_out_cut(out, from);
        return false;
    }
    const size_t n = code_put_names(globals, class, true, &called);
    if (n > 0) {
        zf_out_str(out, " and call ");
        zf_out_add(out, called.p, called.n);
    } else {
        zf_out_str(out, "; nothing is called");
    }
    zf_auto_out(&called);
    return true;
}

static void code_put_count(struct zf_out *out, uint64_t n, const char *one, const char *several)
{
    if (n > 0)
        zf_out_fmt(out, "; %" PRIu64 "%s", n, n == 1 ? one : several);
}

void code_put_sentence(const json_t *code, struct zf_out *out)
{
    const json_t *globals = json_object_get(code, "globals");
    const uint64_t ended = json_array_size(json_object_get(code, "ended")),
                   left = print_number(code, "files_left");
    const size_t from = out->n;

    zf_out_str(out, "DANGEROUS: ");
    if (!code_put_class(globals, "dangerous", out)) {
        zf_out_cut(out, from);
        if (!code_put_class(globals, "foreign", out)) {
            zf_out_str(out, print_number(code, "pickles") == 0 && left > 0
                                ? "there is no pickle in the files that were opened"
                            : print_number(code, "pickles") == 0
                                ? "there is no pickle, so loading it runs nothing"
                                : "loading it with Python would run nothing but the code that "
                                  "torch and the writer need");
        }
    }
    code_put_count(out, ended, " pickle could not be searched", " pickles could not be searched");
    code_put_count(out, left, " more file was not opened (zerofs verify searches it)",
                   " more files were not opened (zerofs verify searches them)");
}

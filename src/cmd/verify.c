/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs verify: opens a checkpoint as with -o degraded, has it checked, and prints each finding at once. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/clock.h>
#include <zf/base/out.h>
#include <zf/base/table.h>
#include <zf/verify/verify.h>

#include "open.h"
#include "page.h"
#include "print.h"
#include "progress.h"
#include "tensors.h"
#include "where.h"

/* The most tensors named in a line; --json names all. */
#define NAMED 3u

/* A tensor that has several names. */
struct verify_name {
    UT_hash_handle hh; /* key: inode number */
    size_t tensor;
};

/* Another name of a tensor, after its first one. */
struct verify_other {
    size_t tensor;
    char *path; /* owned */
};

/* The column in which the text of a finding begins. */
#define VERIFY_TEXT_AT 8

struct verify {
    struct zf_tree *tree;
    const struct opts *o, *how; /* how: the options with which the tree was opened */
    const char *path;
    zf_vec(struct zf_verify_tensor) tensor; /* their paths are owned */
    struct verify_name *names;
    zf_vec(struct verify_other) other;
    struct page page;
    bool part; /* only tensors that the user named */
    /* why the structure cannot be read, so that the files are checked without it; code ZF_OK: it was read */
    struct zf_err unread;
    struct zf_err err; /* a failure to print */
    struct zf_verify_progress done;
    struct progress_watch watch;
};

/* *out: the tensor is new.  A tensor with several names is verified once, under the first; takes *path if it is
 * another name. */
static bool verify_is_new(struct verify *v, const struct zf_stat *st, char **path, bool *out,
                          struct zf_err *err)
{
    const unsigned before = HASH_COUNT(v->names);
    struct verify_name *name = st->nlink > 1 ? zf_table_make_id(v->names, st->ino, err) : NULL;

    *out = st->nlink <= 1 || HASH_COUNT(v->names) > before;
    if (name && *out)
        name->tensor = v->tensor.n;
    if (*out || !name)
        return name || st->nlink <= 1;
    struct verify_other *other = zf_vec_push(&v->other, err);
    if (other)
        *other = (struct verify_other){.tensor = name->tensor, .path = zf_give(*path)};
    return other != NULL;
}

static bool verify_add(void *ctx, const char *path, const struct zf_stat *st, struct zf_err *err)
{
    struct verify *v = ctx;
    struct zf_node_tensor x;
    bool is_new;

    if (!zf_tree_tensor(v->tree, st->ino, &x))
        return true;
    zf_auto(mem) char *copy = strdup(path);
    if (!copy)
        return zf_fail_sys(err, "list tensors");
    if (!verify_is_new(v, st, &copy, &is_new, err))
        return false;
    struct zf_verify_tensor *t = is_new ? zf_vec_push(&v->tensor, err) : NULL;
    if (t)
        *t = (struct zf_verify_tensor){.path = zf_give(copy), .set = x.set, .tensor = x.tensor};
    return !is_new || t;
}

static void zf_auto_verify(struct verify *v)
{
    for (size_t i = 0; i < v->tensor.n; i++)
        free((char *)(uintptr_t)v->tensor.at[i].path);
    for (size_t i = 0; i < v->other.n; i++)
        free(v->other.at[i].path);
    zf_vec_fini(&v->tensor);
    zf_vec_fini(&v->other);
    zf_table_free(v->names);
}

/* ---- printing ---------------------------------------------------------------------------------- */

/* Iterates over all names of a finding's tensors. */
struct verify_walk {
    size_t tensor, other; /* the next ones */
};

/* The next name; NULL: there are no more. */
static const char *verify_next(const struct verify *v, const struct zf_finding *f,
                               struct verify_walk *w)
{
    for (; w->tensor > 0 && w->other < v->other.n; w->other++)
        if (v->other.at[w->other].tensor == f->tensor[w->tensor - 1])
            return v->other.at[w->other++].path;
    w->other = 0;
    return w->tensor < f->n_tensors ? v->tensor.at[f->tensor[w->tensor++]].path : NULL;
}

static void verify_print(struct verify *v, const struct zf_finding *f)
{
    zf_auto(out) struct zf_out text = {0};

    if (f->file[0])
        zf_out_fmt(&text, "%s: ", f->file);
    if (f->end > f->first)
        zf_out_fmt(&text, "bytes %" PRIu64 " to %" PRIu64 ": ", f->first, f->end - 1);
    else if (f->first > 0)
        zf_out_fmt(&text, "byte %" PRIu64 ": ", f->first);
    zf_out_str(&text, f->text);
    struct verify_walk w = {0};
    const char *path;
    size_t n = 0;
    for (; (path = verify_next(v, f, &w)); n++)
        if (n < NAMED)
            zf_out_fmt(&text, "%s%s", n > 0 ? ", " : ": ", path);
    if (n > NAMED)
        zf_out_fmt(&text, " and %zu more", n - NAMED);
    if (zf_out_ok(&text, &v->err)) {
        (void)printf("%-6s  ", zf_finding_weight_name(f->weight));
        page_hang(&v->page, VERIFY_TEXT_AT, zf_out_text(&text));
    }
}

static void verify_print_json(struct verify *v, const struct zf_finding *f)
{
    zf_auto(out) struct zf_out out = {0};

    print_put_text(&out, "{\"kind\":", zf_finding_kind_name(f->kind));
    print_put_text(&out, ",\"weight\":", zf_finding_weight_name(f->weight));
    if (f->file[0])
        print_put_text(&out, ",\"file\":", f->file);
    if (f->end > 0)
        zf_out_fmt(&out, ",\"first\":%" PRIu64 ",\"end\":%" PRIu64, f->first, f->end);
    zf_out_str(&out, ",\"tensors\":[");
    struct verify_walk w = {0};
    const char *path;
    for (bool first = true; (path = verify_next(v, f, &w)); first = false)
        print_put_text(&out, first ? "" : ",", path);
    print_put_text(&out, "],\"text\":", f->text);
    zf_out_str(&out, "}");
    if (zf_out_ok(&out, &v->err))
        (void)puts(zf_out_text(&out));
}

static void verify_found(void *ctx, const struct zf_finding *f)
{
    struct verify *v = ctx;

    progress_watch_clear(&v->watch);
    if (v->o->json)
        verify_print_json(v, f);
    else
        verify_print(v, f);
    (void)fflush(stdout); /* show each finding at once */
}

/* The exit code for the most severe finding.  A kind or size that is not supported is no damage, but no file is to
 * blame for it either. */
static int verify_code(const struct verify *v, const struct zf_verify_sum *s)
{
    const bool kind = v->unread.code == ZF_E_UNSUPPORTED || v->unread.code == ZF_E_LIMIT;

    return s->count[ZF_WEIGHT_UNREAD] > kind ? EXIT_IO
           : kind                            ? EXIT_DAMAGED
           : s->count[ZF_WEIGHT_DAMAGE]      ? EXIT_DAMAGED
           : s->count[ZF_WEIGHT_DANGER]      ? EXIT_NEGATIVE
                                             : EXIT_OK;
}

static const char *verify_word(const struct zf_verify_sum *s)
{
    return s->count[ZF_WEIGHT_UNREAD]   ? "NOT VERIFIED"
           : s->count[ZF_WEIGHT_DAMAGE] ? "DAMAGED"
           : s->count[ZF_WEIGHT_DANGER] ? "DANGEROUS"
                                        : "WHOLE";
}

static void verify_print_sum(const struct verify *v, const struct zf_verify_sum *s, double took)
{
    const bool bad = s->count[ZF_WEIGHT_UNREAD] || s->count[ZF_WEIGHT_DAMAGE];

    if (v->o->json) {
        (void)printf("{\"kind\":\"sum\",\"verdict\":\"%s\",\"files\":%" PRIu64
                     ",\"bad_files\":%" PRIu64 ",\"tensors\":%" PRIu64 ",\"bad_tensors\":%" PRIu64
                     ",\"bytes\":%" PRIu64 ",\"seconds\":%.3f}\n",
                     verify_word(s), s->files, s->bad_files, s->tensors, s->bad_tensors, s->bytes,
                     took);
        return;
    }
    (void)printf("%s: ", verify_word(s));
    if (bad) {
        (void)printf("%s of %s files", number_grouped(s->bad_files).text,
                     number_grouped(s->files).text);
        if (v->unread.code == ZF_OK) {
            (void)printf(", %s of %s tensors", number_grouped(s->bad_tensors).text,
                         number_grouped(s->tensors).text);
        }
        (void)printf(". ");
    } else {
        (void)printf("%s, %s. ", number_of(s->files, "file").text,
                     number_of(s->tensors, "tensor").text);
    }
    if (v->o->quick) {
        (void)puts("Only their structure was looked at.");
        return;
    }
    (void)printf("%s in %u:%02u\n", number_bytes(s->bytes).text, (unsigned)took / 60,
                 (unsigned)took % 60);
}

/* ---- the command ------------------------------------------------------------------------------- */

/* Reads a whole text file, or pipe. */
static bool verify_load_list(const char *path, char **out, struct zf_err *err)
{
    FILE *f = fopen(path, "re");
    size_t room = 0;
    const bool read = f && getdelim(out, &room, '\0', f) >= 0, ok = read || (f && feof(f));

    if (!read && *out)
        (*out)[0] = '\0'; /* an empty file */
    if (!ok) {
        (void)zf_fail_sys(err, "read the list of sums");
        (void)zf_err_in(err, "%s", path);
    }
    if (f)
        (void)fclose(f);
    return ok;
}

static void verify_ask(void *ctx, struct progress_at *out)
{
    struct verify *v = ctx;

    out->bytes = out->moved = atomic_load(&v->done.bytes);
    out->all = atomic_load(&v->done.all);
    out->what = "file";
    out->item = atomic_load(&v->done.files);
    out->items = atomic_load(&v->done.n_files);
}

/* True if tensors were lost, which is reported in any case. */
static bool verify_has_lost(const struct verify *v)
{
    bool lost = zf_tree_checkpoint(v->tree)->n_missing > 0;

    for (size_t i = 0; i < v->tensor.n; i++)
        lost = lost || v->tensor.at[i].tensor->lost;
    return lost;
}

static int verify_run(struct verify *v, struct zf_err *err)
{
    zf_auto(mem) char *list = NULL;
    struct zf_err refused;
    const bool read = v->unread.code == ZF_OK;
    const bool whole = v->part || verify_has_lost(v) || !read ||
                       !open_is_refused(v->path, v->how, zf_tree_checkpoint(v->tree), &refused);
    const int64_t begin = zf_clock_ns();

    if (v->o->check && !verify_load_list(v->o->check, &list, err))
        return cmd_fail(err);
    struct zf_verify_sum sum;
    const struct zf_verify_opts how = {.tensor = v->tensor.at,
                                       .n = v->tensor.n,
                                       .quick = v->o->quick,
                                       .part = v->part,
                                       .coverage = !v->part && read && v->o->only.n == 0 &&
                                                   v->o->except.n == 0,
                                       .jobs = opts_jobs(v->o),
                                       .lim = &v->o->lim,
                                       .refused = whole ? NULL : &refused,
                                       .unread = read ? NULL : &v->unread,
                                       .list = list,
                                       .list_name = v->o->check,
                                       .tree = v->tree,
                                       .found = verify_found,
                                       .ctx = v,
                                       .progress = &v->done};

    progress_watch(&v->watch, true, 0, verify_ask, v);
    const bool ok = zf_verify(zf_tree_checkpoint(v->tree), &how, &sum, err);
    progress_watch_end(&v->watch);
    if (!ok || v->err.code != ZF_OK)
        return cmd_fail(v->err.code != ZF_OK ? &v->err : err);
    verify_print_sum(v, &sum, (double)(zf_clock_ns() - begin) / 1e9);
    return verify_code(v, &sum);
}

/* True if the files can be checked although the checkpoint was refused. */
static bool verify_goes_on(const struct verify *v, const struct zf_err *err)
{
    const bool remote = where_is_remote(v->path);

    return !v->part && !(v->o->tag && strcmp(v->o->tag, "whole") == 0) &&
           (err->code == ZF_E_FORMAT || err->code == ZF_E_UNSUPPORTED || err->code == ZF_E_LIMIT ||
            err->code == ZF_E_NOENT || (err->code == ZF_E_IO && !remote));
}

/* Opens the checkpoint as degraded, or, if that is refused, only its files: then v->unread has the reason. */
static struct zf_tree *verify_open(struct verify *v, struct opts *how, struct zf_err *err)
{
    struct zf_tree *tree = open_tree(v->path, how, err);

    if (tree)
        return tree;
    open_say_remedy(v->path, how, err);
    if (!verify_goes_on(v, err))
        return NULL;
    struct zf_err ignored;
    how->bare = true;
    how->strip_prefix = NULL;
    how->rename.n = how->only.n = how->except.n = how->keep.n = 0;
    tree = open_tree(v->path, how, &ignored);
    if (tree)
        v->unread = *err;
    return tree;
}

int cmd_verify(const struct opts *o, int n, char **word)
{
    struct opts how = *o; /* borrows its strings */
    zf_auto(verify) struct verify v = {
        .o = o, .path = word[0], .page = page_of(stdout, o->color), .part = n > 1};
    struct zf_err err;

    how.degraded = true;
    how.all_copies = true;
    how.recipe = (char *)"off";
    how.model_cache = (char *)"off"; /* read the files themselves */
    zf_err_clear(&v.err);
    zf_err_clear(&v.unread);
    zf_auto(tree) struct zf_tree *tree = verify_open(&v, &how, &err);
    if (!tree)
        return cmd_fail(&err);
    v.tree = tree;
    v.how = &how;
    (void)open_listing(tree, o, false);
    if (!tensors_each(tree, n > 1 ? word[1] : NULL, verify_add, &v, &err))
        return cmd_finish(cmd_negative(&err));
    return cmd_finish(verify_run(&v, &err));
}

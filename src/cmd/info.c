/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs info: the contents of a checkpoint.  Builds one JSON document, which is printed as it is, as a summary
 * (info_people.c), or with -v as a list of everything in it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/num.h>
#include <zf/base/out.h>
#include <zf/codec/json.h>
#include <zf/inspect/outline.h>
#include <zf/overlay/index.h>
#include <zf/mountpoint.h>
#include <zf/overlay/lost.h>

#include "code.h"
#include "info.h"
#include "mounted.h"
#include "open.h"
#include "page.h"
#include "parse.h"
#include "print.h"
#include "where.h"

/* The size of a set: names, and elements and bytes, which count a tied tensor once. */
struct tally {
    uint64_t tensors, elems, bytes, lost;
    uint64_t of_type[ZF_DT_COUNT];
};

static struct tally info_count(const struct zf_set *s)
{
    struct tally t = {0};

    for (uint32_t i = 0; i < s->n; i++) {
        const struct zf_tensor *x = &s->tensor[i];
        uint64_t n;

        t.tensors++;
        t.lost += x->lost;
        t.of_type[x->dtype]++;
        if (x->alias_of == i && zf_elems(x->ndim, x->shape, &n)) {
            t.elems += n;
            t.bytes += zf_map_size(x->data);
        }
    }
    return t;
}

static json_t *info_set(const struct zf_set *s)
{
    struct tally t = info_count(s);
    json_t *types = json_object();

    for (int d = 0; d < ZF_DT_COUNT; d++) {
        if (t.of_type[d]) {
            (void)json_object_set_new(types, zf_dtype_info((enum zf_dtype)d)->suffix,
                                      json_integer((json_int_t)t.of_type[d]));
        }
    }
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:o}", "path", s->path, "tensors",
                     (json_int_t)t.tensors, "elements", (json_int_t)t.elems, "bytes",
                     (json_int_t)t.bytes, "damaged", (json_int_t)t.lost, "dtypes", types);
}

/* The commit that a Hugging Face Hub address was resolved to.  NULL: there is none. */
static const char *info_at(const char *path, const struct zf_checkpoint *c)
{
    const char *at = zf_store_name(c->store);

    return strncmp(path, "hf://", 5) == 0 && strcmp(path, at) != 0 ? at : NULL;
}

/* The network or FUSE file system that a checkpoint is on, and how long it hides changes by default, because it caches
 * attributes.  docs/sources.md says what was tested. */
struct info_source {
    struct zf_mount mount;
    const char *hides;
};

static bool info_source(const struct zf_checkpoint *c, const char *path, struct info_source *out)
{
    static const struct {
        const char *type, *hides;
    } known[] = {
        {"fuse.rclone", "for 5 minutes (--dir-cache-time)"},
        {"fuse.s3fs", "for 15 minutes (-o stat_cache_expire)"},
        {"fuse.sshfs", "for 20 seconds (-o dcache_timeout)"},
        {"nfs", "for 60 seconds (-o actimeo)"},
        {"nfs4", "for 60 seconds (-o actimeo)"},
    };

    if (!zf_store_lags(c->store))
        return false;
    *out = (struct info_source){.hides = "as long as it keeps attributes"};
    if (!zf_mount_at(path, &out->mount) || !out->mount.type[0])
        memcpy(out->mount.type, "unknown", sizeof "unknown");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        out->hides = strcmp(known[i].type, out->mount.type) ? out->hides : known[i].hides;
    return true;
}

/* Groups of equal numbered layers of the weights; groups inside of others are not listed. */
struct info_layers {
    json_t *list;
    json_t *outside; /* modules outside of all layers, each once */
    uint32_t inside; /* outline lines deeper than this belong to the last item of `list` */
    bool within;
};

/* The most modules outside of layers that are listed. */
#define MOST_OUTSIDE 100

/* Adds the module of a parameter: "model.norm" for model.norm.weight. */
static void info_add_outside(json_t *list, const char *path)
{
    const char *dot = strrchr(path, '.');
    json_t *name = zf_json_string(path, dot && dot > path ? (size_t)(dot - path) : strlen(path));
    const size_t n = json_array_size(list);

    if (n >= MOST_OUTSIDE || (n > 0 && json_equal(json_array_get(list, n - 1), name)))
        json_decref(name);
    else
        (void)json_array_append_new(list, name);
}

static bool info_add_layers(void *ctx, const struct zf_outline_line *line, struct zf_err *err)
{
    struct info_layers *l = ctx;

    (void)err;
    l->within = l->within && line->depth > l->inside;
    if (!l->within && line->times > 1) {
        l->within = true;
        l->inside = line->depth;
        (void)json_array_append_new(
            l->list, json_pack("{s:o, s:I, s:I}", "path", zf_json_text(line->path), "times",
                               (json_int_t)line->times, "tensors", (json_int_t)line->tensors));
    } else if (!l->within && line->tensor) {
        info_add_outside(l->outside, line->path);
    }
    return true;
}

static void info_add_outline(json_t *j, const struct zf_checkpoint *c)
{
    const struct zf_set *weights = zf_checkpoint_set(c, "");
    struct info_layers l = {.list = json_array(), .outside = json_array()};
    struct zf_err ignored;

    if (weights && !zf_outline(weights, info_add_layers, &l, &ignored)) {
        (void)json_array_clear(l.list);
        (void)json_array_clear(l.outside);
    }
    (void)json_object_set_new(j, "layers", l.list);
    (void)json_object_set_new(j, "outside", l.outside);
}

/* The document about c, which was opened from `path`. */
static json_t *info_document(const char *path, const struct zf_checkpoint *c, const struct opts *o)
{
    zf_auto(mem) char *config = config_note(c, &o->lim);
    json_t *sets = json_array(), *hosts = json_array(), *notes = zf_index_notes(c),
           *kinds = json_array();
    const char *at = info_at(path, c);
    struct info_source on;

    for (uint32_t i = 0; i < c->n_sets; i++)
        (void)json_array_append_new(sets, info_set(&c->set[i]));
    for (uint32_t i = 0; i < c->n_notes; i++)
        (void)json_array_append_new(kinds, json_string(zf_note_kind_name(c->note[i].kind)));
    if (config) {
        (void)json_array_append_new(notes, json_string(config));
        (void)json_array_append_new(kinds, json_string(zf_note_kind_name(ZF_NOTE_OTHER)));
    }
    zf_store_hosts(c->store, zf_index_add_host, hosts);
    const bool fetched = json_array_size(hosts) > 0, lags = info_source(c, path, &on);
    json_t *where = lags ? json_pack("{s:s, s:s}", "type", on.mount.type, "hides", on.hides) : NULL;
    json_t *j = json_pack(
        "{s:s, s:o, s:s, s:o, s:o, s:o?, s:I, s:o, s:I, s:o, s:o, s:o, s:o*, s:o*, s:s*, s:b}",
        "schema", "zerofs.info/1", "path", zf_json_text(path), "format", c->format, "why",
        zf_json_text(c->why), "tag", zf_json_text(c->tag), "step",
        c->has_step ? json_integer(c->step) : NULL, "pieces", (json_int_t)c->n_pieces, "sets", sets,
        "files", (json_int_t)c->n_blobs, "notes", notes, "note_kinds", kinds, "lost",
        zf_lost_json(c), "hosts", fetched ? json_incref(hosts) : NULL, "on", where, "at", at,
        "model_kept", c->kept);
    json_decref(hosts);
    if (j) {
        info_add_outline(j, c);
        info_facts_add(j, path, c, o);
        (void)json_object_set_new(j, "code", code_json(path, c, o));
    }
    return j;
}

/* ---- as text ----------------------------------------------------------------------------------- */

/* Prints "label    text", wrapped at the terminal's width. */
static void info_line(const char *label, const char *text)
{
    const struct page p = page_of(stdout, COLOR_NEVER);

    (void)printf("%-9s", label);
    page_hang(&p, 9, text);
}

static void info_print_set(const json_t *s)
{
    const struct page p = page_of(stdout, COLOR_NEVER);
    zf_auto(out) struct zf_out line = {0};
    const char *type, *sep = "";
    json_t *n;

    zf_out_fmt(&line, "%8" PRIu64 " tensors  %14" PRIu64 " elements  %s  (",
               print_number(s, "tensors"), print_number(s, "elements"),
               number_bytes(print_number(s, "bytes")).text);
    json_object_foreach(json_object_get(s, "dtypes"), type, n)
    {
        zf_out_fmt(&line, "%s%s", sep, type);
        sep = " ";
    }
    zf_out_str(&line, ")");
    if (print_number(s, "damaged"))
        zf_out_fmt(&line, "  %" PRIu64 " damaged", print_number(s, "damaged"));
    const int used = printf("  /%-24s ", print_text(s, "path"));
    (void)page_last(&p, used > 0 ? (size_t)used : 0, 0, zf_out_text(&line));
    (void)fputc('\n', stdout);
}

static void info_print_host(const json_t *h)
{
    zf_auto(out) struct zf_out line = {0};

    zf_out_fmt(&line, "%s from %s in %" PRIu64 " requests, ",
               number_bytes(print_number(h, "bytes")).text, print_text(h, "host"),
               print_number(h, "requests"));
    if (print_number(h, "retries"))
        zf_out_fmt(&line, "%" PRIu64 " of them retries", print_number(h, "retries"));
    else
        zf_out_str(&line, "no retries");
    info_line("fetched", zf_out_text(&line));
}

/* The most damaged tensors that are listed; --json has all. */
#define MOST_LINES 200

static void info_put_reason(struct zf_out *line, const json_t *how)
{
    const char *file = print_text(how, "file");

    zf_out_fmt(line, "%s%s%s", file, *file ? " " : "", print_text(how, "why"));
}

static void info_put_lost(struct zf_out *line, const json_t *t)
{
    const json_t *ranges = json_object_get(t, "lost_bytes");
    const json_t *first = json_array_get(ranges, 0), *next = json_array_get(ranges, 1);
    const char *set = print_text(t, "set");

    zf_out_fmt(line, "%s%s%s", set, *set ? "/" : "", print_text(t, "name"));
    if (!ranges) {
        zf_out_str(line, ": all bytes: ");
        info_put_reason(line, t);
    }
    if (first) {
        zf_out_fmt(line, ": bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64 ": ",
                   print_number(first, "first"), print_number(first, "end") - 1,
                   print_number(t, "bytes"));
        info_put_reason(line, first);
    }
    if (next)
        zf_out_fmt(line, "; more from byte %" PRIu64 " on", print_number(next, "first"));
}

static void info_print_list(const char *label, const json_t *list, size_t most,
                            void (*put)(struct zf_out *line, const json_t *item))
{
    for (size_t i = 0; i < json_array_size(list) && i < most; i++) {
        zf_auto(out) struct zf_out line = {0};

        put(&line, json_array_get(list, i));
        info_line(i ? "" : label, zf_out_text(&line));
    }
}

/* The most groups of layers listed as text; --json has all. */
#define MOST_LAYERS 8

static void info_print_layers(const json_t *layers)
{
    const size_t n = json_array_size(layers);
    zf_auto(out) struct zf_out line = {0};

    for (size_t i = 0; i < n && i < MOST_LAYERS; i++) {
        const json_t *one = json_array_get(layers, i);

        zf_out_fmt(&line, "%s%s (%" PRIu64 " x %" PRIu64 ")", i ? ", " : "",
                   print_text(one, "path"), print_number(one, "times"),
                   print_number(one, "tensors"));
    }
    if (n) {
        zf_out_str(&line, n > MOST_LAYERS ? ", ..." : "");
        info_line("layers", zf_out_text(&line));
    }
}

static void info_put_note(struct zf_out *line, const json_t *note)
{
    zf_out_str(line, json_string_value(note));
}

static void info_print_code(const json_t *code)
{
    zf_auto(out) struct zf_out line = {0};

    if (code) {
        code_put_sentence(code, &line);
        info_line("code", zf_out_text(&line));
    }
}

static void info_print_head(const json_t *j)
{
    const json_t *on = json_object_get(j, "on");
    zf_auto(out) struct zf_out where = {0};
    zf_auto(out) struct zf_out format = {0};

    if (json_object_get(j, "at"))
        info_line("commit", print_text(j, "at"));
    if (on) {
        zf_out_fmt(&where, "%s: changes there may stay hidden %s", print_text(on, "type"),
                   print_text(on, "hides"));
        info_line("on", zf_out_text(&where));
    }
    zf_out_fmt(&format, "%s: %s", print_text(j, "format"), print_text(j, "why"));
    info_line("format", zf_out_text(&format));
    if (*print_text(j, "tag"))
        info_line("tag", print_text(j, "tag"));
}

static void info_text(const json_t *j)
{
    const json_t *lost = json_object_get(j, "lost"), *item;
    size_t i;

    (void)printf("%s\n", print_text(j, "path"));
    if (!json_object_get(j, "format"))
        return;
    info_print_head(j);
    if (json_is_integer(json_object_get(j, "step")))
        (void)printf("step     %" PRId64 "\n", (int64_t)print_number(j, "step"));
    (void)printf("pieces   %" PRIu64 "\nsets\n", print_number(j, "pieces"));
    json_array_foreach(json_object_get(j, "sets"), i, item)
    {
        info_print_set(item);
    }
    info_print_layers(json_object_get(j, "layers"));
    if (print_number(j, "files"))
        (void)printf("files    %" PRIu64 " next to the tensors\n", print_number(j, "files"));
    if (json_is_true(json_object_get(j, "model_kept")))
        info_line("cached", "metadata from the model cache; the checkpoint is unchanged");
    json_array_foreach(json_object_get(j, "hosts"), i, item)
    {
        info_print_host(item);
    }
    info_print_code(json_object_get(j, "code"));
    info_print_list("lost", lost, MOST_LINES, info_put_lost);
    if (json_array_size(lost) > MOST_LINES) {
        (void)printf("         and %zu more tensors (--json lists all)\n",
                     json_array_size(lost) - MOST_LINES);
    }
    info_print_list("notes", json_object_get(j, "notes"), SIZE_MAX, info_put_note);
}

/* Prints j and frees it.  Returns the exit code: lost bytes are damage, even with -o degraded. */
static int info_print(json_t *j, const struct opts *o)
{
    const struct page p = page_of(stdout, o->color);
    const bool lost = json_array_size(json_object_get(j, "lost")) > 0;
    int code = EXIT_OK;

    if (o->json || o->verbose || !j) {
        code = print_document(j, o->json, info_text);
    } else {
        info_people(&p, j);
        json_decref(j);
        code = cmd_finish(EXIT_OK);
    }
    return code == EXIT_OK && lost ? EXIT_DAMAGED : code;
}

/* Prints what can still be read of a checkpoint that was refused (*err, already reported).  Returns the exit code. */
static int info_degraded(const char *path, const struct opts *o, const struct zf_err *err)
{
    char text[1024];
    struct opts again = *o; /* borrows its strings */
    struct zf_err ignored;

    again.degraded = true;
    zf_auto(checkpoint) struct zf_checkpoint *c = open_checkpoint(path, &again, &ignored);
    json_t *j = c ? info_document(path, c, &again) : NULL;
    if (!j)
        return zf_err_exit(err);
    (void)json_object_set_new(j, "refused", zf_json_text(zf_err_text(err, text, sizeof text)));
    const int code = info_print(j, o);
    return code ? code : EXIT_DAMAGED;
}

/* ---- a zerofs mount ----------------------------------------------------------------------------- */

/* Sets in *o those options of a mount that decide what it shows. */
static void info_take_options(struct opts *o, const json_t *in_force)
{
    const json_t *one;
    struct zf_err ignored;
    size_t i;

    json_array_foreach(in_force, i, one)
    {
        zf_auto(out) struct zf_out word = {0};

        for (const char *p = json_string_value(one); p && *p; p++) {
            zf_out_str(&word, *p == ',' ? "\\" : "");
            zf_out_add(&word, p, 1);
        }
        (void)!opts_list(o, &cmd_table[CMD_MOUNT], zf_out_text(&word), &ignored);
    }
    o->all_tags = false;
    if (o->current) {
        o->current = false;
        o->tag = strdup("whole");
    }
}

/* Prints a mount (from mounted_describe; freed here) and its checkpoint, opened with the mount's options. */
static int info_mount(json_t *mount, const struct opts *o)
{
    zf_auto(opts) struct opts as = opts_default();
    const char *path = print_text(mount, "checkpoint");
    struct zf_err err;

    info_take_options(&as, json_object_get(mount, "in_force"));
    zf_auto(checkpoint) struct zf_checkpoint *c =
        opts_finish(&as, &err) ? open_checkpoint(path, &as, &err) : NULL;
    json_t *j = c ? info_document(path, c, &as)
                  : json_pack("{s:s, s:O}", "schema", "zerofs.info/1", "path",
                              json_object_get(mount, "checkpoint"));
    (void)json_object_set_new(j, "mount", mount);
    const int code = info_print(j, o);
    return c || code ? code : cmd_fail(&err);
}

int cmd_info(const struct opts *o, int n, char **word)
{
    struct zf_err err;
    zf_auto(checkpoint) struct zf_checkpoint *c = open_checkpoint(word[0], o, &err);

    (void)n;
    if (c) {
        const int code = info_print(info_document(word[0], c, o), o);
        const bool all = o->only.n == 0 && o->except.n == 0;
        return code == EXIT_OK && o->degraded && all && open_is_refused(word[0], o, c, &err)
                   ? cmd_fail(&err)
                   : code;
    }
    json_t *mount = err.code == ZF_E_UNKNOWN ? mounted_describe(word[0]) : NULL;
    if (mount)
        return info_mount(mount, o);
    const bool damage = open_is_damage(word[0], o, &err);
    if (!damage)
        open_say_remedy(word[0], o, &err);
    const int code = cmd_fail(&err);
    return damage ? info_degraded(word[0], o, &err) : code;
}

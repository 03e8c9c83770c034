/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs info as text: one line per topic, no wider than the terminal. */
#include "info.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zf/base/out.h>

#include "code.h"
#include "print.h"

/* The most items of a list that are named; --json and -v have all. */
#define MOST_NAMED 6
#define MOST_DAMAGED 20

/* Adds "f32 27.0 GiB, bf16 1.0 MiB" for {"f32": BYTES, …}. */
static void people_types(struct zf_out *to, const json_t *types)
{
    const char *type, *sep = "";
    json_t *n;

    json_object_foreach((json_t *)(uintptr_t)types, type, n)
    {
        zf_out_fmt(to, "%s%s %s", sep, type, number_bytes((uint64_t)json_integer_value(n)).text);
        sep = ", ";
    }
}

/* Adds the strings of an array, only the first ones of a long one. */
static void people_names(struct zf_out *to, const json_t *list, const char *sep)
{
    const size_t n = json_array_size(list);

    for (size_t i = 0; i < n && i < MOST_NAMED; i++)
        zf_out_fmt(to, "%s%s", i ? sep : "", json_string_value(json_array_get(list, i)));
    if (n > MOST_NAMED)
        zf_out_fmt(to, "%s… and %s more", sep, number_grouped(n - MOST_NAMED).text);
}

static void people_line(const struct page *p, const char *label, const struct zf_out *text)
{
    if (text->n)
        page_line(p, label, zf_out_text(text));
}

/* ---- the first line ---------------------------------------------------------------------------- */

/* Adds "DeepSpeed ZeRO-3, 8 ranks (TP 2), DeepSpeed 0.18.9, step 1,000, 2026-11-20 17:03". */
static void people_origin(struct zf_out *to, const json_t *j)
{
    const json_t *written = json_object_get(j, "written");
    const time_t at = (time_t)json_integer_value(written);
    const char *key, *sep = " (";
    char when[32];
    struct tm tm;
    json_t *v;

    zf_out_str(to, print_text(j, "family"));
    if (json_is_integer(json_object_get(j, "ranks")))
        zf_out_fmt(to, ", %s", number_of(print_number(j, "ranks"), "rank").text);
    json_object_foreach(json_object_get(j, "parallel"), key, v)
    {
        zf_out_fmt(to, "%s%c%c %s", sep, toupper(key[0]), toupper(key[1]),
                   number_grouped((uint64_t)json_integer_value(v)).text);
        sep = ", ";
    }
    zf_out_str(to, sep[0] == ',' ? ")" : "");
    json_object_foreach(json_object_get(j, "versions"), key, v)
    {
        zf_out_fmt(to, ", %s %s", key, json_string_value(v));
    }
    if (json_is_integer(json_object_get(j, "step"))) {
        const int64_t step = json_integer_value(json_object_get(j, "step"));

        zf_out_fmt(to, ", step %s%s", step < 0 ? "-" : "",
                   number_grouped(step < 0 ? 0 - (uint64_t)step : (uint64_t)step).text);
    }
    if (json_is_integer(written) && localtime_r(&at, &tm) &&
        strftime(when, sizeof when, ", %Y-%m-%d %H:%M", &tm) > 0)
        zf_out_str(to, when);
}

/* Prints the path and the save in it, in front of the first line if it fits, else as a heading. */
static void people_head(const struct page *p, const json_t *j)
{
    zf_auto(out) struct zf_out path = {0}, rest = {0};
    const char *at = print_text(j, "path"), *tag = print_text(j, "tag");
    const size_t n = strlen(at), t = strlen(tag);

    zf_out_str(&path, at);
    if (t && !(n > t && at[n - t - 1] == '/' && strcmp(at + n - t, tag) == 0))
        zf_out_fmt(&path, "%s%s", n && at[n - 1] == '/' ? "" : "/", tag);
    people_origin(&rest, j);
    (void)fputs(page_look(p, PAGE_LABEL), p->to);
    page_text(p, zf_out_text(&path), path.n);
    (void)fputs(page_look_end(p), p->to);
    if (path.n + 3 + rest.n <= p->width) {
        (void)fputs("   ", p->to);
        page_text(p, zf_out_text(&rest), rest.n);
        (void)fputc('\n', p->to);
    } else {
        (void)fputc('\n', p->to);
        people_line(p, "", &rest);
    }
}

/* ---- what it holds ----------------------------------------------------------------------------- */

/* Adds a count to "; 1 tied, 2 buffers" if it is not 0. */
static void people_rest(struct zf_out *to, uint64_t n, const char *what, const char *plural)
{
    if (n) {
        zf_out_fmt(to, "%s%s%s%s",
                   !to->n                         ? ""
                   : strchr(zf_out_text(to), ';') ? ", "
                                                  : "; ",
                   number_grouped(n).text, what, n == 1 ? "" : plural);
    }
}

static void people_weights(const struct page *p, const json_t *j)
{
    const json_t *w = json_object_get(j, "weights");
    const uint64_t params = print_number(w, "parameters");
    zf_auto(out) struct zf_out t = {0};

    if (print_number(w, "tensors")) {
        zf_out_fmt(&t, "%s parameter%s in %s%s, ",
                   (params < 1000000 ? number_grouped : number_short)(params).text,
                   params == 1 ? "" : "s", number_of(print_number(w, "tensors"), "tensor").text,
                   print_number(w, "by_rank") ? " of all ranks, copies included" : "");
        people_types(&t, json_object_get(w, "bytes"));
    }
    people_rest(&t, print_number(w, "tied"), " tied", "");
    if (print_number(w, "frozen")) {
        people_rest(&t, print_number(w, "frozen"), " frozen in ", "");
        people_types(&t, json_object_get(w, "frozen_bytes"));
    }
    people_rest(&t, print_number(w, "buffers"), " buffer", "s");
    people_rest(&t, print_number(w, "integers"), " integer tensor", "s");
    people_line(p, "weights", &t);
}

static void people_optimizer(const struct page *p, const json_t *j)
{
    const json_t *o = json_object_get(j, "optimizer");
    zf_auto(out) struct zf_out t = {0};

    if (!json_is_object(o))
        return;
    if (*print_text(o, "class"))
        zf_out_fmt(&t, "%s: ", print_text(o, "class"));
    people_names(&t, json_object_get(o, "states"), ", ");
    zf_out_str(&t, "; ");
    people_types(&t, json_object_get(o, "bytes"));
    people_line(p, "optimizer", &t);
}

static void people_layers(const struct page *p, const json_t *j)
{
    const json_t *layers = json_object_get(j, "layers"), *outside = json_object_get(j, "outside");
    zf_auto(out) struct zf_out t = {0};

    for (size_t i = 0; i < json_array_size(layers) && i < MOST_NAMED; i++) {
        const json_t *one = json_array_get(layers, i);

        zf_out_fmt(&t, "%s%s × %s", i ? "; " : "", print_text(one, "path"),
                   number_of(print_number(one, "tensors"), "tensor").text);
    }
    if (!t.n)
        return;
    zf_out_fmt(&t, "%s%s", json_array_size(layers) > MOST_NAMED ? "; …" : "",
               json_array_size(outside) ? "; " : "");
    people_names(&t, outside, ", ");
    people_line(p, "layers", &t);
}

static void people_files(const struct page *p, const json_t *j)
{
    const json_t *shards = json_object_get(j, "shards"), *saves = json_object_get(j, "saves");
    zf_auto(out) struct zf_out t = {0};

    if (json_is_object(shards)) {
        zf_out_fmt(&t, "%s, %s", number_of(print_number(shards, "files"), "shard").text,
                   number_bytes(print_number(shards, "bytes")).text);
    }
    if (json_is_object(saves)) {
        zf_out_fmt(&t, "; %s of %s (zerofs tags %s)",
                   json_is_true(json_object_get(saves, "newest")) ? "newest" : "one",
                   number_of(print_number(saves, "n"), "save").text, print_text(j, "path"));
    }
    people_line(p, "files", &t);
}

/* Prints the directories that have tensors, each once, and the number of other files. */
static void people_shown(const struct page *p, const json_t *j)
{
    zf_auto(out) struct zf_out t = {0};
    const char *before = "";
    size_t i, n = 0, before_len = 0;
    const json_t *set;

    json_array_foreach(json_object_get(j, "sets"), i, set)
    {
        const char *path = print_text(set, "path");
        const size_t len = strcspn(path, "/");

        if (i > 0 && len == before_len && strncmp(path, before, len) == 0)
            continue;
        before = path;
        before_len = len;
        if (n++ < MOST_NAMED)
            zf_out_fmt(&t, "%s%.*s%s", n > 1 ? ", " : "", (int)len, path,
                       len ? "/" : "the weights");
    }
    zf_out_str(&t, n > MOST_NAMED ? ", …" : "");
    if (print_number(j, "files")) {
        zf_out_fmt(&t, "%s%s", t.n ? ", " : "",
                   number_of(print_number(j, "files"), "other file").text);
    }
    people_line(p, "shown", &t);
}

/* ---- notes and damage -------------------------------------------------------------------------- */

/* The file's path relative to the checkpoint. */
static const char *people_inside(const char *path, const char *file)
{
    const size_t n = strlen(path);

    if (n == 0 || strncmp(file, path, n) != 0 || (path[n - 1] != '/' && file[n] != '/'))
        return file;
    return file + n + strspn(file + n, "/");
}

/* Prints "rank3.pt is missing: 12 tensors, 3.1 GiB lost". */
static void people_damage(const struct page *p, const json_t *j)
{
    const json_t *list = json_object_get(j, "damage");
    const size_t n = json_array_size(list);

    for (size_t i = 0; i < n && i < MOST_DAMAGED; i++) {
        const json_t *one = json_array_get(list, i);
        zf_auto(out) struct zf_out t = {0};

        zf_out_str(&t, people_inside(print_text(j, "path"), print_text(one, "file")));
        zf_out_fmt(&t, "%s%s: %s%s", t.n ? " " : "", print_text(one, "why"),
                   json_is_true(json_object_get(one, "at_least")) ? "at least " : "",
                   number_of(print_number(one, "tensors"), "tensor").text);
        if (print_number(one, "bytes"))
            zf_out_fmt(&t, ", %s", number_bytes(print_number(one, "bytes")).text);
        zf_out_str(&t, " lost");
        people_line(p, i ? "" : "damaged", &t);
    }
    if (n > MOST_DAMAGED) {
        zf_auto(out) struct zf_out t = {0};

        zf_out_fmt(&t, "and %s (--json lists all)", number_of(n - MOST_DAMAGED, "more file").text);
        people_line(p, "", &t);
    }
}

static void people_code(const struct page *p, const json_t *code)
{
    zf_auto(out) struct zf_out t = {0};

    if (code) {
        code_put_sentence(code, &t);
        people_line(p, "code", &t);
    }
}

/* Prints "hf/ lacks config.json: -o side=DIR; …". */
static void people_remedies(const struct page *p, const json_t *j)
{
    zf_auto(out) struct zf_out t = {0};
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(j, "remedies"), i, one)
    {
        zf_out_fmt(&t, "%s%s%s%s", i ? "; " : "", print_text(one, "why"),
                   *print_text(one, "type") ? ": " : "", print_text(one, "type"));
    }
    people_line(p, "open it", &t);
}

/* Prints where the checkpoint is read from, unless it is a local disk. */
static void people_source(const struct page *p, const json_t *j)
{
    const json_t *on = json_object_get(j, "on"), *host;
    zf_auto(out) struct zf_out where = {0};
    size_t i;

    if (*print_text(j, "at"))
        page_line(p, "commit", print_text(j, "at"));
    if (json_is_object(on)) {
        zf_out_fmt(&where, "%s: changes there may stay hidden %s", print_text(on, "type"),
                   print_text(on, "hides"));
        people_line(p, "on", &where);
    }
    json_array_foreach(json_object_get(j, "hosts"), i, host)
    {
        zf_auto(out) struct zf_out t = {0};

        zf_out_fmt(&t, "%s from %s in %s, %s", number_bytes(print_number(host, "bytes")).text,
                   print_text(host, "host"),
                   number_of(print_number(host, "requests"), "request").text,
                   print_number(host, "retries") ? "retries: " : "no retries");
        if (print_number(host, "retries"))
            zf_out_str(&t, number_grouped(print_number(host, "retries")).text);
        people_line(p, i ? "" : "fetched", &t);
    }
}

/* True for notes to show here: notes on optimizer groups are left to -v, notes on hf/ to the line "open it". */
static bool people_is_odd(const json_t *kind)
{
    return !json_string_value(kind) ||
           (strcmp(json_string_value(kind), zf_note_kind_name(ZF_NOTE_GROUPS)) != 0 &&
            strcmp(json_string_value(kind), zf_note_kind_name(ZF_NOTE_HF)) != 0);
}

static void people_notes(const struct page *p, const json_t *j)
{
    const json_t *note, *kinds = json_object_get(j, "note_kinds");
    const char *label = "notes";
    size_t i;

    json_array_foreach(json_object_get(j, "notes"), i, note)
    {
        if (people_is_odd(json_array_get(kinds, i))) {
            page_line(p, label, json_string_value(note));
            label = "";
        }
    }
}

/* Prints "mount      /mnt/x shows it for 1:02:03; 12.3 GiB read, 0 errors; large files through the page cache". */
static void people_mount(const struct page *p, const json_t *m)
{
    zf_auto(out) struct zf_out t = {0};
    const uint64_t up = print_number(m, "uptime");

    zf_out_fmt(&t, "%s shows %s", print_text(m, "mountpoint"), print_text(m, "shows"));
    if (json_is_integer(json_object_get(m, "uptime"))) {
        zf_out_fmt(&t, "; up %" PRIu64 ":%02u:%02u", up / 3600, (unsigned)(up / 60 % 60),
                   (unsigned)(up % 60));
    }
    if (json_is_integer(json_object_get(m, "bytes"))) {
        zf_out_fmt(&t, ", %s read, %s", number_bytes(print_number(m, "bytes")).text,
                   number_of(print_number(m, "errors"), "error").text);
    }
    if (*print_text(m, "io")) {
        zf_out_fmt(&t, "; large files %s the page cache",
                   strcmp(print_text(m, "io"), "direct") == 0 ? "past" : "through");
    }
    if (*print_text(m, "remedy"))
        zf_out_fmt(&t, ", a third faster after root's %s", print_text(m, "remedy"));
    people_line(p, "mount", &t);
}

void info_people(const struct page *p, const json_t *j)
{
    people_head(p, j);
    if (json_is_object(json_object_get(j, "mount")))
        people_mount(p, json_object_get(j, "mount"));
    if (!json_object_get(j, "format"))
        return;
    people_weights(p, j);
    people_optimizer(p, j);
    people_layers(p, j);
    people_files(p, j);
    people_shown(p, j);
    people_damage(p, j);
    people_remedies(p, j);
    people_code(p, json_object_get(j, "code"));
    people_source(p, j);
    people_notes(p, j);
}

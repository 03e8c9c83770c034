/* SPDX-License-Identifier: Apache-2.0 */
/* Notes, shown by info. */
#include "build_kind.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/out.h>

/* The most notes of one form; further ones are only counted. */
#define NOTES_OF_A_FORM 256
#define ABOUT_BYTES 4096

const char *zf_note_kind_name(enum zf_note_kind kind)
{
    static const char *const name[ZF_NOTE_KINDS] = {[ZF_NOTE_OTHER] = "other",
                                                    [ZF_NOTE_UNSHOWN] = "unshown",
                                                    [ZF_NOTE_UNREADABLE] = "unreadable",
                                                    [ZF_NOTE_LEFT_OUT] = "left-out",
                                                    [ZF_NOTE_SAVES] = "saves",
                                                    [ZF_NOTE_UNCOMPARED] = "uncompared",
                                                    [ZF_NOTE_NO_WEIGHTS] = "no-weights",
                                                    [ZF_NOTE_GROUPS] = "groups",
                                                    [ZF_NOTE_HF] = "hf",
                                                    [ZF_NOTE_BROKEN] = "broken"};

    return name[kind];
}

void zf_note_about(struct zf_out *about, const char *name)
{
    if (about->n < ABOUT_BYTES) {
        zf_out_str(about, name);
        zf_out_u8(about, '\n');
    }
}

bool build_keep_note(struct zf_build *b, struct zf_note note, struct zf_err *err)
{
    struct zf_note *to;

    note.text = zf_arena_str(b->keep, note.text, strlen(note.text), err);
    note.about = note.text ? zf_arena_str(b->keep, note.about, strlen(note.about), err) : NULL;
    if (!note.about ||
        !build_may_add(b->lists.notes.n, b->lim.tensors, "notes", ZF_LIMIT_tensors, err) ||
        !(to = zf_vec_push(&b->lists.notes, err)))
        return false;
    *to = note;
    return true;
}

static struct note_form *note_form(struct zf_build *b, const char *fmt, struct zf_err *err)
{
    struct note_form *form = b->rest.note_forms;

    while (form && strcmp(form->fmt, fmt) != 0)
        form = form->next;
    if (form)
        return form;
    form = zf_arena_get(b->temp, 1, sizeof *form, err);
    if (!form || !(form->fmt = zf_arena_str(b->temp, fmt, strlen(fmt), err)))
        return NULL;
    form->next = b->rest.note_forms;
    b->rest.note_forms = form;
    return form;
}

/* *new_out: is this the form's first note for the key?  Records the key. */
static bool note_key(struct zf_build *b, struct note_form *form, const char *key, bool *new_out,
                     struct zf_err *err)
{
    const struct note_key *at = form->keys;

    while (at && strcmp(at->text, key) != 0)
        at = at->next;
    *new_out = !at;
    if (at || form->n >= NOTES_OF_A_FORM)
        return true;
    struct note_key *one = zf_arena_get(b->temp, 1, sizeof *one, err);
    if (!one || !(one->text = zf_arena_str(b->temp, key, strlen(key), err)) ||
        !build_save(b, &form->keys, sizeof form->keys, &form->keys_mark, err))
        return false;
    one->next = form->keys;
    form->keys = one;
    return true;
}

/* key: NULL = a note each time. */
static bool note_add(struct zf_build *b, struct zf_note note, const char *key, struct zf_err *err,
                     const char *fmt, va_list ap)
{
    struct note_form *form = note_form(b, fmt, err);
    bool new = true;
    char text[1024];

    if (!form || (key && !note_key(b, form, key, &new, err)))
        return false;
    if (!new)
        return true;
    if (!build_save(b, &form->n, sizeof form->n, &form->mark, err))
        return false;
    if (form->n++ >= NOTES_OF_A_FORM)
        return true;
    note.text = vsnprintf(text, sizeof text, fmt, ap) < 0 ? "" : text;
    return build_keep_note(b, note, err);
}

bool zf_build_note(struct zf_build *b, struct zf_err *err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    const bool ok = note_add(b, (struct zf_note){.about = ""}, NULL, err, fmt, ap);
    va_end(ap);
    return ok;
}

bool zf_build_note_on(struct zf_build *b, enum zf_note_kind kind, const char *about,
                      struct zf_err *err, const char *fmt, ...)
{
    const struct zf_note note = {.kind = kind, .about = about ? about : ""};
    va_list ap;

    va_start(ap, fmt);
    const bool ok = note_add(b, note, NULL, err, fmt, ap);
    va_end(ap);
    return ok;
}

bool zf_build_note_once(struct zf_build *b, const char *key, enum zf_note_kind kind,
                        const char *about, struct zf_err *err, const char *fmt, ...)
{
    const struct zf_note note = {.kind = kind, .about = about ? about : ""};
    va_list ap;

    va_start(ap, fmt);
    const bool ok = note_add(b, note, key, err, fmt, ap);
    va_end(ap);
    return ok;
}

bool zf_build_has_note(const struct zf_build *b, enum zf_note_kind kind)
{
    for (size_t i = 0; i < b->lists.notes.n; i++)
        if (b->lists.notes.at[i].kind == kind)
            return true;
    return false;
}

bool zf_build_note_says(const struct zf_build *b, const char *text, const char *other)
{
    for (size_t i = 0; i < b->lists.notes.n; i++)
        if (strstr(b->lists.notes.at[i].text, text) && strstr(b->lists.notes.at[i].text, other))
            return true;
    return false;
}

/* ---- files that notes name ---- */

#define NAMED_MOST 4096u

bool zf_build_note_names(struct zf_build *b, const char *path, const char *msg, struct zf_err *err)
{
    struct note_named one, *to;

    if (b->lists.named.n >= NAMED_MOST)
        return true;
    one.path = zf_arena_str(b->temp, path, strlen(path), err);
    one.msg = one.path ? zf_arena_str(b->temp, msg, strlen(msg), err) : NULL;
    to = one.msg ? zf_vec_push(&b->lists.named, err) : NULL;
    if (to)
        *to = one;
    return to != NULL;
}

/* Is `name` a component of the path, which the end of a line ends?  With a '/' at its end: and is something inside it? */
static bool note_path_has(const char *path, const char *name)
{
    const size_t n = strcspn(name, "/");

    for (const char *at = path; *at && *at != '\n'; at += *at == '/' || *at == '!') {
        const size_t len = strcspn(at, "/!\n");

        if (len == n && memcmp(at, name, n) == 0 && (!name[n] || at[n] == '/'))
            return true;
        at += len;
    }
    return false;
}

/* The part of a path that is below the checkpoint's directory, or the whole path. */
static const char *note_below(const struct zf_build *b, const char *path)
{
    const char *dir = b->store ? zf_store_name(b->store) : "";
    const size_t n = strlen(dir);

    return n && strncmp(path, dir, n) == 0 ? path + n : path;
}

bool zf_build_noted(const struct zf_build *b, const char *name)
{
    for (size_t i = 0; i < b->lists.notes.n; i++)
        for (const char *line = b->lists.notes.at[i].about; *line;
             line += strcspn(line, "\n"), line += *line == '\n')
            if (note_path_has(line, name))
                return true;
    for (size_t i = 0; i < b->lists.named.n; i++)
        if (note_path_has(note_below(b, b->lists.named.at[i].path), name))
            return true;
    return false;
}

bool zf_build_noted_failure(const struct zf_build *b, const struct zf_err *why)
{
    const char *slash = strrchr(why->path, '/'), *name = slash ? slash + 1 : why->path;

    for (size_t i = 0; i < b->lists.named.n; i++)
        if (strcmp(b->lists.named.at[i].msg, why->msg) == 0 &&
            note_path_has(b->lists.named.at[i].path, name))
            return true;
    return false;
}

const char *zf_build_first_note(const struct zf_build *b)
{
    return b->lists.notes.n ? b->lists.notes.at[0].text : NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the files in a directory of a server without listings.  The names in names.def are requested; files that exist name
 * others.  This is not a complete listing: a file with another name that no file refers to is not found.  Whether a save is
 * complete is decided by its own metadata, as for every save. */
#include "unlisted.h"

#include <ctype.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/name.h>
#include <zf/base/path.h>
#include <zf/base/thread.h>
#include <zf/base/vec.h>
#include <zf/codec/json.h>

enum {
    NAMES_ROUND = 4096,   /* named files requested at a time */
    NAMES_BATCH = 32,     /* numbers requested at a time; a batch without a file ends a series */
    NAMES_MOST = 100000,  /* limit of a number */
    NAMES_POINTER = 4096, /* limit of a pointer file, bytes */
    NAMES_STRING = 4096,  /* limit of a name in a pickle, bytes */
};
static const uint64_t names_document = 256u << 20;

struct names_row {
    enum { NAME, POINTER, LIST, PICKLE, SERIES, LISTED } kind;
    const char *path, *text, *what; /* their meaning by kind is in names.def */
};
static const struct names_row names_rows[] = {
#define NAME(path) {NAME, path, NULL, NULL},
#define POINTER(path, dir) {POINTER, path, dir, NULL},
#define LIST(path, key) {LIST, path, key, NULL},
#define PICKLE(path) {PICKLE, path, NULL, NULL},
#define SERIES(first, pattern) {SERIES, first, pattern, NULL},
#define LISTED(path, text, what) {LISTED, path, text, what},
#include "names.def"
};
#define N_ROWS (sizeof names_rows / sizeof names_rows[0])

struct names {
    const struct names_ops *ops;
    void *ctx;
    const struct zf_limits *lim;
    pthread_mutex_t lock; /* guards what follows */
    bool asked, all;      /* the server was tested; it answers for every name (names_try) */
    zf_vec(char *) known; /* directories that pointer files named */
};

struct names *names_new(const struct names_ops *ops, void *ctx, const struct zf_limits *lim,
                        struct zf_err *err)
{
    struct names *n = calloc(1, sizeof *n);

    if (!n)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory"));
    n->ops = ops;
    n->ctx = ctx;
    n->lim = lim;
    (void)pthread_mutex_init(&n->lock, NULL);
    return n;
}

void names_free(struct names *n)
{
    if (!n)
        return;
    for (size_t i = 0; i < n->known.n; i++)
        free(n->known.at[i]);
    zf_vec_fini(&n->known);
    (void)pthread_mutex_destroy(&n->lock);
    free(n);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* The search in the directory `dir`; files that exist are added to `out`. */
struct names_ask {
    struct names *n;
    const char *dir;
    struct entries *out;
    zf_vec(char *) path; /* below dir; still to be requested */
    size_t hits;         /* files found in the last round */
};

static void names_drop(struct names_ask *a)
{
    while (a->path.n)
        free(a->path.at[--a->path.n]);
}

static void names_ask_fini(struct names_ask *a)
{
    names_drop(a);
    zf_vec_fini(&a->path);
}

static bool names_want(struct names_ask *a, const char *path, struct zf_err *err)
{
    char **slot = zf_vec_push(&a->path, err);

    if (!slot)
        return false;
    *slot = strdup(path);
    return *slot || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
}

/* Adds a found file, or the first directory in its path. */
static bool names_add(struct names_ask *a, const char *path, const struct names_found *f,
                      struct zf_err *err)
{
    const char *slash = strchr(path, '/');
    struct entry e = {.name = path, .dir = slash != NULL};

    e.sized = !slash && f->size != NAMES_UNSIZED;
    e.size = e.sized ? f->size : 0;
    return entries_add(a->out, &e, slash ? (size_t)(slash - path) : strlen(path), err);
}

/* Requests all queued names, and adds those that exist. */
static bool names_round(struct names_ask *a, struct zf_err *err)
{
    size_t n = a->path.n;
    zf_auto(mem) struct names_found *found = calloc(n ? n : 1, sizeof *found);
    zf_auto(mem) char **full = calloc(n ? n : 1, sizeof *full);
    bool ok = found && full;

    a->hits = 0;
    if (!ok)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    for (size_t i = 0; ok && i < n; i++) {
        full[i] = zf_relpath_join(a->dir, a->path.at[i], err);
        ok = full[i] != NULL;
    }
    ok = ok && (n == 0 || a->n->ops->have(a->n->ctx, (const char *const *)full, n, found, err));
    for (size_t i = 0; i < n; i++) {
        free(full[i]);
        a->hits += found[i].is;
        ok = ok && (!found[i].is || names_add(a, a->path.at[i], &found[i], err));
    }
    names_drop(a);
    return ok;
}

/* Queues a HEAD for a path found in metadata. */
static bool names_want_named(struct names_ask *a, const char *name, struct zf_err *err)
{
    return !zf_relpath_ok(name) || entries_find(a->out, name) ||
           (names_want(a, name, err) && (a->path.n < NAMES_ROUND || names_round(a, err)));
}

static bool names_has(const struct names_ask *a, const char *path)
{
    const struct entry *e = entries_find(a->out, path);

    return e && !e->dir;
}

static char *names_get(const struct names_ask *a, const char *path, uint64_t most, uint64_t *n,
                       struct zf_err *err)
{
    zf_auto(mem) char *full = zf_relpath_join(a->dir, path, err);

    return full ? a->n->ops->get(a->n->ctx, full, most, n, err) : NULL;
}

/* ---- series ---------------------------------------------------------------------------------- */

/* Puts numbers into a pattern: "rank@2" and 5 give "rank05". */
static void names_expand(const char *pattern, const unsigned *v, char out[256])
{
    size_t at = 0;

    for (; *pattern && at < 200; pattern++)
        if (*pattern == '@')
            at += (size_t)snprintf(out + at, 32, "%0*u", *++pattern - '0', *v++);
        else
            out[at++] = *pattern;
    out[at] = '\0';
}

/* Requests all files of a series with the numbers v[1] and v[2]; *any_out: one exists. */
static bool names_row(struct names_ask *a, const char *pattern, unsigned v[3], bool *any_out,
                      struct zf_err *err)
{
    char name[256];

    *any_out = false;
    for (v[0] = 0; v[0] < NAMES_MOST;) {
        for (unsigned i = 0; i < NAMES_BATCH; i++, v[0]++) {
            names_expand(pattern, v, name);
            if (!entries_find(a->out, name) && !names_want(a, name, err))
                return false;
            *any_out = *any_out || entries_find(a->out, name);
        }
        if (!names_round(a, err))
            return false;
        if (a->hits == 0)
            return true;
        *any_out = true;
    }
    return true;
}

static bool names_series(struct names_ask *a, const char *pattern, struct zf_err *err)
{
    size_t numbers = 0;
    unsigned v[3] = {0};
    bool row = true, any = true;

    for (const char *p = pattern; (p = strchr(p, '@')); p++)
        numbers++;
    for (v[2] = 0; any && v[2] < (numbers > 2 ? NAMES_MOST : 1); v[2]++) {
        any = false;
        row = true;
        for (v[1] = 0; row && v[1] < (numbers > 1 ? NAMES_MOST : 1); v[1]++) {
            if (!names_row(a, pattern, v, &row, err))
                return false;
            any = any || row;
        }
    }
    return true;
}

/* ---- files that name others ------------------------------------------------------------------ */

static bool names_known_add(struct names *n, const char *dir, const char *name, struct zf_err *err)
{
    char *path = zf_relpath_join(dir, name, err);

    (void)pthread_mutex_lock(&n->lock);
    char **slot = path ? zf_vec_push(&n->known, err) : NULL;
    if (slot)
        *slot = path;
    (void)pthread_mutex_unlock(&n->lock);
    if (!slot)
        free(path);
    return slot != NULL;
}

static bool names_pointer(struct names_ask *a, const char *path, const char *pattern,
                          struct zf_err *err)
{
    uint64_t n;
    zf_auto(mem) char *text = names_get(a, path, NAMES_POINTER, &n, err);
    char name[NAMES_POINTER + 64];
    bool number = strlen(pattern) > 1;

    if (!text)
        return err->code == ZF_E_LIMIT; /* too long for a pointer file: ignored */
    while (n && isspace((unsigned char)text[n - 1]))
        text[--n] = '\0';
    char *word = text + strspn(text, " \t\r\n");
    bool digits = *word && strspn(word, "0123456789") == strlen(word) && strlen(word) < 9;
    if (number != digits)
        return true;
    if (number) {
        unsigned v = (unsigned)strtoul(word, NULL, 10);
        names_expand(pattern, &v, name);
    } else {
        (void)snprintf(name, sizeof name, "%s", word);
    }
    return !zf_relpath_ok(name) || names_known_add(a->n, a->dir, name, err);
}

static bool names_index(struct names_ask *a, const char *path, const char *key, struct zf_err *err)
{
    uint64_t n;
    zf_auto(mem) char *text = names_get(a, path, names_document, &n, err);
    zf_auto(json) json_t *doc = text ? zf_json_load(text, n, a->n->lim, err) : NULL;
    const char *tensor;
    json_t *file;

    if (!doc) {
        /* A malformed file is reported when the save is read. */
        return text && err->code == ZF_E_FORMAT;
    }
    json_object_foreach(json_object_get(doc, key), tensor, file)
    {
        const char *name = json_string_value(file);

        if (name && !names_want_named(a, name, err))
            return false;
    }
    return true;
}

/* Finds the string of a pickle whose opcode is p[0]: SHORT_BINUNICODE or BINUNICODE.  Source: CPython Lib/pickle.py. */
static bool names_string(const uint8_t *p, size_t n, const char **text, size_t *len)
{
    size_t head = p[0] == 0x8c ? 2 : 5;

    if ((p[0] != 0x8c && p[0] != 'X') || n < head)
        return false;
    *len = p[0] == 0x8c
               ? p[1]
               : (size_t)p[1] | (size_t)p[2] << 8 | (size_t)p[3] << 16 | (size_t)p[4] << 24;
    *text = (const char *)p + head;
    return *len > 8 && *len < NAMES_STRING && *len <= n - head;
}

/* Queues each string of a pickle that looks like a file name; a wrong guess costs one request. */
static bool names_pickle(struct names_ask *a, const char *path, struct zf_err *err)
{
    uint64_t n;
    zf_auto(mem) char *bytes = names_get(a, path, names_document * 8, &n, err);
    const char *text;
    size_t len;

    for (uint64_t i = 0; bytes && i < n; i++) {
        if (!names_string((const uint8_t *)bytes + i, (size_t)(n - i), &text, &len))
            continue;
        zf_auto(mem) char *name = strndup(text, len);
        if (!name)
            return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        bool is = strlen(name) == len &&
                  (zf_name_ends(name, ".distcp") || zf_name_ends(name, ".safetensors"));
        if (is && !names_want_named(a, name, err))
            return false;
    }
    return bytes != NULL;
}

/* ---- the directory --------------------------------------------------------------------------- */

/* Tests the server with a name that no file has.  A server that answers for it answers for every name, so names cannot be
 * probed. */
static bool names_try(struct names *n, struct zf_err *err)
{
    static const char *const nobody[] = {"zerofs-asks-whether-a-missing-file-is-missing"};
    struct names_found found = {.is = false};

    (void)pthread_mutex_lock(&n->lock);
    bool asked = n->asked, all = n->all;
    (void)pthread_mutex_unlock(&n->lock);
    if (!asked) {
        if (!n->ops->have(n->ctx, nobody, 1, &found, err))
            return false;
        all = found.is;
        (void)pthread_mutex_lock(&n->lock);
        n->asked = true;
        n->all = all;
        (void)pthread_mutex_unlock(&n->lock);
    }
    return !all || zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                           "the server gives no listing, and claims to have files that cannot "
                           "exist. Write a list and serve it with the files: zerofs index DIR");
}

/* Adds the directories in a->dir that pointer files named. */
static bool names_known(struct names_ask *a, struct zf_err *err)
{
    size_t n = strlen(a->dir);
    bool ok = true;

    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&a->n->lock);
    for (size_t i = 0; ok && i < a->n->known.n; i++) {
        const char *path = a->n->known.at[i];
        bool below = n == 0 || (strncmp(path, a->dir, n) == 0 && path[n] == '/');
        const char *name = below ? path + n + (n > 0) : "";
        struct entry e = {.name = name, .dir = true};

        ok = !below || entries_find(a->out, name) ||
             entries_add(a->out, &e, strcspn(name, "/"), err);
    }
    return ok;
}

/* *yes: there is an entry with the first component of the path as its name.  Errors: ZF_E_NOMEM. */
static bool names_begins(struct names_ask *a, const char *path, bool *yes, struct zf_err *err)
{
    zf_auto(mem) char *head = strndup(path, strcspn(path, "/"));

    *yes = head && entries_find(a->out, head);
    return head || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
}

/* Refuses kinds of saves that cannot be found without a listing: the file exists and contains the text. */
static bool names_unlisted(struct names_ask *a, const struct names_row *r, struct zf_err *err)
{
    bool there, asks = r->text[0];
    uint64_t n;

    if (!names_begins(a, r->path, &there, err))
        return false;
    if (!there)
        return true;
    zf_auto(mem) char *text = asks ? names_get(a, r->path, names_document, &n, err) : NULL;
    if (asks && (!text || !strstr(text, r->text)))
        return text != NULL;
    return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                   "this is %s, which needs a listing. Write one and serve it with the files: "
                   "zerofs index DIR",
                   r->what);
}

/* Queues the files that a found file refers to. */
static bool names_follow(struct names_ask *a, const struct names_row *r, struct zf_err *err)
{
    bool there;

    switch (r->kind) {
    case POINTER:
        return !names_has(a, r->path) || names_pointer(a, r->path, r->text, err);
    case LIST:
        return !names_has(a, r->path) || names_index(a, r->path, r->text, err);
    case PICKLE:
        return !names_has(a, r->path) || names_pickle(a, r->path, err);
    case SERIES:
        return names_begins(a, r->path, &there, err) && (!there || names_series(a, r->text, err));
    case LISTED:
        return names_unlisted(a, r, err);
    case NAME:
        break;
    }
    return true;
}

/* Follows the rows of kinds [from, to]. */
static bool names_follow_all(struct names_ask *a, int from, int to, struct zf_err *err)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        int kind = (int)names_rows[i].kind;

        if (kind >= from && kind <= to && !names_follow(a, &names_rows[i], err))
            return false;
    }
    return true;
}

static bool names_look(struct names_ask *a, struct zf_err *err)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        bool twice = false;

        for (size_t k = 0; k < i; k++)
            twice = twice || strcmp(names_rows[k].path, names_rows[i].path) == 0;
        if (!twice && !names_want(a, names_rows[i].path, err))
            return false;
    }
    return names_round(a, err) && names_follow_all(a, LISTED, LISTED, err) &&
           names_follow_all(a, POINTER, PICKLE, err) && names_round(a, err) &&
           names_follow_all(a, SERIES, SERIES, err) && names_known(a, err);
}

/* Is the file a whole model by its name: not one of a series, and not one that belongs to other files? */
static bool names_alone(const char *file)
{
    bool whole = strcmp(file, "model.safetensors") == 0 || strcmp(file, "pytorch_model.bin") == 0;

    for (size_t i = 0; !whole && i < N_ROWS; i++)
        if (strcmp(names_rows[i].path, file) == 0)
            return false;
    return whole || ((zf_name_ends(file, ".safetensors") || zf_name_ends(file, ".bin")) &&
                     strncmp(file, "adapter", 7) != 0 && !strpbrk(file, "0123456789/"));
}

bool names_list(struct names *n, const char *dir, const char *focus, struct entries *out,
                struct zf_err *err)
{
    struct names_ask a = {.n = n, .dir = dir, .out = out};
    bool ok = names_try(n, err);

    if (ok && focus && !*dir && names_alone(focus))
        ok = names_want(&a, focus, err) && names_round(&a, err);
    else
        ok = ok && names_look(&a, err);

    names_ask_fini(&a);
    return ok && (out->n || zf_fail(err, ZF_E_NOENT, ZF_OFF_NONE,
                                    "there is no file here with a name of a checkpoint's files"));
}

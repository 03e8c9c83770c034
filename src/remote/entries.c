/* SPDX-License-Identifier: Apache-2.0 */
#include "entries.h"

#include <inttypes.h>
#include <string.h>

struct entry_number {
    UT_hash_handle hh; /* key: the entry's own copy of the name */
    size_t i;
};

bool entries_init(struct entries *e, const struct zf_limits *lim, struct zf_err *err)
{
    *e = (struct entries){.most = lim->dir_entries};
    e->text = zf_arena_new(UINT64_MAX, err); /* bounded by the bytes of the listing */
    return e->text != NULL;
}

bool entries_again(struct entries *e, struct zf_err *err)
{
    const struct zf_limits lim = {.dir_entries = e->most};

    entries_fini(e);
    return entries_init(e, &lim, err);
}

void entries_fini(struct entries *e)
{
    HASH_CLEAR(hh, e->by_name); /* its members lie in the arena */
    zf_arena_free(e->text);
    zf_vec_fini(e);
    *e = (struct entries){.text = NULL};
}

/* Is it a single path component, other than "." and ".."? */
static bool entries_name_ok(const char *name, size_t n)
{
    return n > 0 && !memchr(name, '\0', n) && !memchr(name, '/', n) &&
           !(n <= 2 && memcmp(name, "..", n) == 0);
}

static struct entry *entries_same(const struct entries *e, const char *name, size_t n)
{
    const struct entry_number *found = zf_table_find(e->by_name, name, n);

    return found ? &e->at[found->i] : NULL;
}

const struct entry *entries_find(const struct entries *e, const char *name)
{
    return entries_same(e, name, strlen(name));
}

/* Copies *text into the arena; an empty text becomes NULL. */
static bool entries_text(struct entries *e, const char **text, struct zf_err *err)
{
    const char *from = *text;

    *text = from && *from ? zf_arena_str(e->text, from, strlen(from), err) : NULL;
    return *text || !from || !*from;
}

/* Handles a file and a directory with the same name. */
static bool entries_both(const struct entries *e, struct entry *was, const struct entry *is,
                         struct zf_err *err)
{
    const struct entry *file = was->dir ? is : was;

    if (e->once && file->sized && file->size == 0) {
        *was = (struct entry){.name = was->name, .dir = true};
        return true;
    }
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "the listing has \"%.100s\" as a file and as a directory%s", was->name,
                   e->once ? ": keys that differ only by a trailing slash cannot both be shown. "
                             "Point at one of them"
                           : "");
}

/* Handles a name that exists already: merges equal entries, refuses contradictions. */
static bool entries_twice(const struct entries *e, struct entry *was, const struct entry *is,
                          struct zf_err *err)
{
    if (was->dir != is->dir)
        return entries_both(e, was, is, err);
    if (e->once && !is->dir) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the server lists \"%.200s\" twice: the listing is endless", was->name);
    }
    if (was->sized && is->sized && was->size != is->size) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the listing has \"%.100s\" twice, of %" PRIu64 " and of %" PRIu64 " bytes",
                       was->name, was->size, is->size);
    }
    if (is->sized) {
        was->sized = true;
        was->size = is->size;
    }
    return true;
}

static bool entries_put(struct entries *e, const struct entry *what, size_t n, struct zf_err *err)
{
    struct entry_number *number = zf_arena_get(e->text, 1, sizeof *number, err);
    struct entry *to = number ? zf_vec_push(e, err) : NULL;

    if (!to)
        return false;
    *to = *what;
    to->name = zf_arena_str(e->text, what->name, n, err);
    number->i = e->n - 1;
    return to->name && entries_text(e, &to->etag, err) && entries_text(e, &to->version, err) &&
           zf_table_add(e->by_name, to->name, n, number, err);
}

bool entries_add(struct entries *e, const struct entry *what, size_t n, struct zf_err *err)
{
    if (!entries_name_ok(what->name, n)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the listing has an entry \"%.*s\", which is not a file name",
                       n < 100 ? (int)n : 100, what->name);
    }
    struct entry *was = entries_same(e, what->name, n);
    if (was)
        return entries_twice(e, was, what, err);
    if (e->n >= e->most) {
        return zf_fail_limit(err, ZF_LIMIT_dir_entries, ZF_OFF_NONE,
                             "the listing has more than %" PRIu64 " entries (limit dir_entries)",
                             e->most);
    }
    return entries_put(e, what, n, err);
}

bool entries_set(struct entries *e, size_t i, const struct http_object *o, struct zf_err *err)
{
    struct entry *to = &e->at[i];

    to->sized = o->size != HTTP_SIZE_UNKNOWN;
    to->size = o->size;
    to->mtime = o->mtime.tv_sec;
    to->date = o->date;
    to->etag = o->etag;
    to->version = o->version;
    return entries_text(e, &to->etag, err) && entries_text(e, &to->version, err);
}

/* A tag that does not fit counts as unknown: truncated, two different tags could become equal. */
static void entries_tag(char *out, size_t room, const char *text)
{
    if (text && strlen(text) < room)
        memcpy(out, text, strlen(text) + 1);
}

struct http_object entries_object(const struct entries *e, size_t i)
{
    const struct entry *from = &e->at[i];
    struct http_object o = HTTP_OBJECT_UNKNOWN;

    if (from->sized) {
        o.size = from->size;
        o.mtime.tv_sec = from->mtime;
        o.date = from->asked ? from->date : e->date;
    }
    entries_tag(o.etag, sizeof o.etag, from->etag);
    entries_tag(o.version, sizeof o.version, from->version);
    return o;
}

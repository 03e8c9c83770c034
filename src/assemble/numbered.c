/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/numbered.h>

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include <zf/base/num.h>

enum { NUMBERED_DIGITS = 7 };

/* ---- one name ---- */

/* Reads the number for "%r" or "%02r" from *name; moves *name and *p past it. */
static bool numbered_take(const char **p, const char **name, uint32_t *out)
{
    size_t padded = (*p)[1] == '0' ? (size_t)((*p)[2] - '0') : 0, n = strspn(*name, "0123456789");

    *p += padded ? 4 : 2;
    if (n == 0 || n > NUMBERED_DIGITS || n < padded || (n > 1 && n > padded && **name == '0'))
        return false;
    *out = (uint32_t)strtoul(*name, NULL, 10);
    *name += n;
    return true;
}

/* The number of placeholders in p[n]. */
static size_t numbered_count(const char *p, size_t n)
{
    size_t found = 0;

    for (size_t i = 0; i < n; i++)
        found += p[i] == '%';
    return found;
}

/* Does the rest of a name match the rest of a pattern, after `at` numbers?  The recursion is as deep as the pattern has
 * brackets and stars; patterns are constants of ours. */
static bool numbered_rest(const char *p, const char *name, size_t at, struct zf_numbered_file *out)
{
    while (*p) {
        if (*p == '%') {
            if (!numbered_take(&p, &name, &out->number[at++]))
                return false;
        } else if (*p == '[') {
            const char *end = strchr(p, ']') + 1;
            size_t skipped = numbered_count(p, (size_t)(end - p));

            if (numbered_rest(p + 1, name, at, out))
                return true;
            for (size_t i = 0; i < skipped; i++)
                out->number[at++] = ZF_NO_NUMBER;
            p = end;
        } else if (*p == ']') {
            p++;
        } else if (*p == '*') {
            size_t n = 1, most = strlen(name);

            while (n <= most && !numbered_rest(p + 1, name + n, at, out))
                n++;
            out->stem = (size_t)(name - out->name);
            out->stem_len = n;
            return n <= most;
        } else if (*p++ != *name++) {
            return false;
        }
    }
    return *name == '\0';
}

bool zf_numbered_fits(const char *pattern, const char *name, struct zf_numbered_file *out)
{
    *out = (struct zf_numbered_file){.name = name};
    return numbered_rest(pattern, name, 0, out);
}

/* The index of a letter among the numbers of a pattern; ZF_NUMBERS: not in it. */
static size_t numbered_index(const char *pattern, char letter)
{
    size_t at = 0;

    for (const char *p = pattern; (p = strchr(p, '%')); p++) {
        if (p[1] == letter || (p[1] == '0' && p[3] == letter))
            return at;
        at++;
    }
    return ZF_NUMBERS;
}

uint32_t zf_numbered_get(const char *pattern, const struct zf_numbered_file *f, char letter)
{
    size_t at = numbered_index(pattern, letter);

    return at < ZF_NUMBERS ? f->number[at] : ZF_NO_NUMBER;
}

void zf_numbered_set(const char *pattern, struct zf_numbered_file *f, char letter, uint32_t number)
{
    size_t at = numbered_index(pattern, letter);

    if (at < ZF_NUMBERS)
        f->number[at] = number;
}

void zf_numbered_print(const char *pattern, const struct zf_numbered_file *f, char *out,
                       size_t room)
{
    size_t used = 0, at = 0;

    for (const char *p = pattern; *p && used + 1 < room;) {
        const char *end = *p == '[' ? strchr(p, ']') : p;

        if (*p == '%') {
            int wide = p[1] == '0' ? p[2] - '0' : 1;
            int n = snprintf(out + used, room - used, "%0*" PRIu32, wide, f->number[at++]);

            used += n > 0 ? (size_t)n : 0;
            p += p[1] == '0' ? 4 : 2;
        } else if (*p == '*') {
            size_t n = f->stem_len < room - used - 1 ? f->stem_len : room - used - 1;

            memcpy(out + used, f->name + f->stem, n);
            used += n;
            p++;
        } else if (*p == '[' && strchr(p, '%') < end && f->number[at] == ZF_NO_NUMBER) {
            at += numbered_count(p, (size_t)(end - p));
            p = end + 1;
        } else if (*p == '[' || *p == ']') {
            p++;
        } else {
            out[used++] = *p++;
        }
    }
    out[used < room ? used : room - 1] = '\0';
}

/* ---- a directory ---- */

bool zf_numbered_any(struct zf_store *st, const char *dir, const char *pattern)
{
    struct zf_numbered_file f;

    for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++)
        if (zf_numbered_fits(pattern, l.e->name, &f))
            return true;
    return false;
}

static int numbered_cmp_stem(const struct zf_numbered_file *x, const struct zf_numbered_file *y)
{
    size_t n = x->stem_len < y->stem_len ? x->stem_len : y->stem_len;
    int by = n ? memcmp(x->name + x->stem, y->name + y->stem, n) : 0;

    return by ? by : (x->stem_len > y->stem_len) - (x->stem_len < y->stem_len);
}

static int numbered_cmp(const void *a, const void *b)
{
    const struct zf_numbered_file *x = a, *y = b;
    int by = numbered_cmp_stem(x, y);

    for (size_t i = 0; by == 0 && i < ZF_NUMBERS; i++)
        by = (x->number[i] > y->number[i]) - (x->number[i] < y->number[i]);
    return by;
}

bool zf_numbered_list(struct zf_store *st, const char *dir, const char *pattern,
                      struct zf_numbered *out, struct zf_err *err)
{
    struct zf_numbered_file f;

    *out = (struct zf_numbered){.dir = dir, .pattern = pattern};
    for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++) {
        if (zf_numbered_fits(pattern, l.e->name, &f)) {
            struct zf_numbered_file *to = zf_vec_push(&out->file, err);

            if (!to) {
                zf_auto_numbered(out);
                return false;
            }
            *to = f;
        }
    }
    if (out->file.n > 0)
        qsort(out->file.at, out->file.n, sizeof *out->file.at, numbered_cmp);
    return true;
}

size_t zf_numbered_run(const struct zf_numbered *l, size_t from)
{
    size_t end = from + 1;

    while (end < l->file.n && numbered_cmp_stem(&l->file.at[from], &l->file.at[end]) == 0)
        end++;
    return end;
}

/* ---- completeness ---- */

/* The letters of a pattern that are coordinates (ranks), and the size of each axis. */
struct numbered_axes {
    uint32_t n;
    struct numbered_axis {
        size_t at;     /* index among the numbers */
        size_t of;     /* index of the number with the axis's size; ZF_NUMBERS: none */
        uint32_t size; /* 0: the pattern's brackets around it are missing in the name */
    } axis[ZF_NUMBERS];
};

static void numbered_axes(const char *pattern, struct numbered_axes *out)
{
    size_t at = 0;

    out->n = 0;
    for (const char *p = pattern; (p = strchr(p, '%')); p++, at++) {
        char letter = p[1] == '0' ? p[3] : p[1];

        if (islower((unsigned char)letter)) {
            char upper = (char)toupper((unsigned char)letter);

            out->axis[out->n++] =
                (struct numbered_axis){.at = at, .of = numbered_index(pattern, upper)};
        }
    }
}

/* Do two files name the same sizes, and have the same optional parts? */
static bool numbered_same_sizes(const struct numbered_axes *x, const struct zf_numbered_file *a,
                                const struct zf_numbered_file *b)
{
    for (uint32_t i = 0; i < x->n; i++) {
        const struct numbered_axis *axis = &x->axis[i];

        if ((axis->of < ZF_NUMBERS && a->number[axis->of] != b->number[axis->of]) ||
            (a->number[axis->at] == ZF_NO_NUMBER) != (b->number[axis->at] == ZF_NO_NUMBER))
            return false;
    }
    return true;
}

static bool numbered_measure(const struct zf_numbered *l, size_t from, size_t end,
                             struct numbered_axes *x, uint64_t *n, struct zf_err *err)
{
    *n = 1;
    for (uint32_t i = 0; i < x->n; i++) {
        struct numbered_axis *axis = &x->axis[i];

        for (size_t k = from; k < end; k++) {
            const struct zf_numbered_file *f = &l->file.at[k];
            uint32_t place = f->number[axis->at];

            axis->size = place != ZF_NO_NUMBER && place >= axis->size ? place + 1 : axis->size;
            if (axis->of < ZF_NUMBERS && place != ZF_NO_NUMBER && place >= f->number[axis->of]) {
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "\"%.100s\" has the number %" PRIu32 ", but there are only %" PRIu32,
                               f->name, place, f->number[axis->of]);
            }
        }
        if (axis->of < ZF_NUMBERS && axis->size)
            axis->size = l->file.at[from].number[axis->of];
        if (axis->size && (!zf_mul(*n, axis->size, n) || *n > ZF_NUMBERED_MAX)) {
            return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE,
                           "\"%.100s\" belongs to a series of more than %d files",
                           l->file.at[from].name, ZF_NUMBERED_MAX);
        }
    }
    return true;
}

/* Writes the name of the file at coordinate number k. */
static void numbered_name(const struct zf_numbered *l, const struct zf_numbered_file *like,
                          const struct numbered_axes *x, uint64_t k, char *out, size_t room)
{
    struct zf_numbered_file f = *like;

    for (uint32_t i = x->n; i-- > 0;) {
        uint32_t size = x->axis[i].size;

        f.number[x->axis[i].at] = size ? (uint32_t)(k % size) : ZF_NO_NUMBER;
        k /= size ? size : 1;
    }
    zf_numbered_print(l->pattern, &f, out, room);
}

/* The file's coordinates as one number; the last letter varies fastest. */
static uint64_t numbered_place(const struct numbered_axes *x, const struct zf_numbered_file *f)
{
    uint64_t k = 0;

    for (uint32_t i = 0; i < x->n; i++)
        if (x->axis[i].size)
            k = k * x->axis[i].size + f->number[x->axis[i].at];
    return k;
}

bool zf_numbered_complete(const struct zf_numbered *l, size_t from, size_t end, struct zf_err *err)
{
    const char *slash = *l->dir ? "/" : "";
    struct numbered_axes x;
    char name[200];
    uint64_t n;

    if (from == end)
        return true;
    const struct zf_numbered_file *first = &l->file.at[from];
    numbered_axes(l->pattern, &x);
    for (size_t i = from + 1; i < end; i++) {
        if (!numbered_same_sizes(&x, first, &l->file.at[i])) {
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                          "%.100s and %.100s give different numbers of files: two saves are mixed",
                          first->name, l->file.at[i].name);
            return *l->dir ? zf_err_in(err, "%s", l->dir) : false;
        }
    }
    if (!numbered_measure(l, from, end, &x, &n, err))
        return *l->dir ? zf_err_in(err, "%s", l->dir) : false;
    for (size_t i = from; i < end && end - from < n; i++) {
        uint64_t want = i - from;

        if (numbered_place(&x, &l->file.at[i]) != want || i + 1 == end) {
            want += numbered_place(&x, &l->file.at[i]) == want;
            numbered_name(l, first, &x, want, name, sizeof name);
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                          "it is missing (%zu of %" PRIu64 " files found, like %.100s)", end - from,
                          n, first->name);
            return zf_err_in(err, "%s%s%s", l->dir, slash, name);
        }
    }
    return true;
}

/* ---- one file per rank ---- */

bool zf_ranks_list(struct zf_store *st, struct zf_arena *a, const char *dir, const char *pattern,
                   uint32_t world, struct zf_ranks *out, struct zf_err *err)
{
    const char *percent = strchr(pattern, '%'), *slash = *dir ? "/" : "";
    const int wide = percent[1] == '0' ? percent[2] - '0' : 1, stem = (int)(percent - pattern);
    const char *tail = percent + (percent[1] == '0' ? 4 : 2);
    zf_auto(numbered) struct zf_numbered l = {.dir = NULL};

    *out = (struct zf_ranks){.n = world};
    if (!zf_numbered_list(st, dir, pattern, &l, err))
        return false;
    uint32_t most = l.file.n ? l.file.at[l.file.n - 1].number[0] : 0;
    out->n_here = (uint32_t)l.file.n;
    out->n = l.file.n && most >= world ? most + 1 : world;
    if (out->n > ZF_NUMBERED_MAX) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "%" PRIu32 " ranks are more than %d", out->n,
                       ZF_NUMBERED_MAX);
    }
    out->dir = zf_arena_fmt(a, err, "%s%s", dir, slash);
    out->path = out->dir ? zf_arena_get(a, out->n, sizeof *out->path, err) : NULL;
    out->here = out->path ? zf_arena_get(a, out->n, sizeof *out->here, err) : NULL;
    for (uint32_t r = 0; out->here && r < out->n; r++) {
        out->path[r] = zf_arena_fmt(a, err, "%s%s%.*s%0*" PRIu32 "%s", dir, slash, stem, pattern,
                                    wide, r, tail);
        if (!out->path[r])
            return false;
    }
    for (size_t i = 0; out->here && i < l.file.n; i++)
        out->here[l.file.at[i].number[0]] = true;
    return out->here != NULL;
}

bool zf_ranks_complete(const struct zf_ranks *r, struct zf_err *err)
{
    uint32_t i = 0;

    while (i < r->n && r->here[i])
        i++;
    if (i == r->n)
        return true;
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "it is missing: %" PRIu32 " of %" PRIu32 " ranks have a file in %s", r->n_here, r->n,
            *r->dir ? r->dir : "this directory");
    return zf_err_in(err, "%s", r->path[i]);
}

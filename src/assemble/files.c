/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/files.h>

#include <stdio.h>
#include <string.h>

const char *zf_absent(struct zf_store *st, const char *path, char *out)
{
    const struct zf_entry *e = zf_store_find(st, path);

    if (!e)
        (void)snprintf(out, ZF_ABSENT_MAX, "is missing");
    else
        (void)snprintf(out, ZF_ABSENT_MAX, "is %s, not a file", e->what);
    return out;
}

enum { SERIES_DIGITS = 7 };

/* Reads one to SERIES_DIGITS digits and moves *p past them; returns their number.  0: none, or more. */
static size_t files_series_digits(const char **p, unsigned long *out)
{
    size_t n = strspn(*p, "0123456789");

    *out = strtoul(*p, NULL, 10);
    *p += n;
    return n <= SERIES_DIGITS ? n : 0;
}

/* Are the numbers around the "of" at `of` those of a numbered series?  With separators other than "-" they must have as
 * many digits as writers use: a save may well be called epoch_3_of_10. */
static bool files_series_at(const char *name, const char *of, struct zf_series *out)
{
    const char *end = of - 1, *at = end;

    while (at > name && at[-1] >= '0' && at[-1] <= '9')
        at--;
    if (at <= name + 1 || !strchr("-_.", at[-1]))
        return false;
    const bool plain = at[-1] == '-' && *end == '-';

    out->stem = (size_t)(at - 1 - name);
    out->width = (int)files_series_digits(&at, &out->number);
    at = of + 3;

    size_t wide_of = files_series_digits(&at, &out->of);

    out->tail = at;
    return out->width && wide_of && *at == '.' && (plain || (out->width == 5 && wide_of == 5));
}

bool zf_series_parse(const char *name, struct zf_series *out)
{
    struct zf_series s;
    bool found = false;

    for (const char *of = name; (of = strstr(of, "of")); of++) {
        if (of > name && (of[-1] == '-' || of[-1] == '_') && of[2] == of[-1] &&
            files_series_at(name, of, &s)) {
            *out = s;
            found = true;
        }
    }
    return found;
}

/* The order of series; files of the same series are equal. */
static int files_series_cmp(const void *a, const void *b)
{
    const struct zf_series_files *x = a, *y = b;

    if (x->as.stem != y->as.stem)
        return x->as.stem < y->as.stem ? -1 : 1;
    int by = memcmp(x->name, y->name, x->as.stem);

    by = by ? by : strcmp(x->as.tail, y->as.tail);
    return by ? by : (x->as.of > y->as.of) - (x->as.of < y->as.of);
}

static int files_number_cmp(const void *a, const void *b)
{
    const struct zf_series_files *x = a, *y = b;
    int by = files_series_cmp(a, b);

    return by ? by : (x->as.number > y->as.number) - (x->as.number < y->as.number);
}

/* The smallest number from `from` on that none of n sorted files has; `from` + of: none is missing. */
static unsigned long files_series_gap(const struct zf_series_files *f, size_t n, unsigned long from)
{
    unsigned long want = from;

    for (size_t i = 0; i < n; i++)
        want += f[i].as.number == want;
    return want < from + f->as.of ? want : from + f->as.of;
}

bool zf_series_list(const struct zf_entry *e, size_t n, bool (*counts)(const char *name),
                    struct zf_series_list *out, struct zf_err *err)
{
    struct zf_series s;
    size_t n_series = 0;

    for (size_t i = 0; i < n; i++) {
        if (!counts(e[i].name) || !zf_series_parse(e[i].name, &s))
            continue;
        struct zf_series_files *f = zf_vec_push(&out->of, err);

        if (!f)
            return false;
        *f = (struct zf_series_files){.name = e[i].name, .as = s};
    }
    if (out->of.n)
        qsort(out->of.at, out->of.n, sizeof *out->of.at, files_number_cmp);
    for (size_t i = 0, end; i < out->of.n; i = end) {
        struct zf_series_files first = out->of.at[i];

        for (end = i + 1; end < out->of.n && files_series_cmp(&first, &out->of.at[end]) == 0;)
            end++;
        unsigned long gap = files_series_gap(&out->of.at[i], end - i, 1);

        if (gap <= first.as.of && files_series_gap(&out->of.at[i], end - i, 0) < first.as.of)
            first.lacks = gap;
        out->of.at[n_series++] = first;
    }
    out->of.n = n_series;
    return true;
}

const struct zf_series_files *zf_series_find(const struct zf_series_list *list, const char *name)
{
    struct zf_series_files key = {.name = name};

    return list->of.n && zf_series_parse(name, &key.as)
               ? bsearch(&key, list->of.at, list->of.n, sizeof key, files_series_cmp)
               : NULL;
}

bool zf_series_fail(const struct zf_series_files *s, struct zf_err *err)
{
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "file %0*lu of %0*lu of the series %.*s is missing", s->as.width, s->lacks,
                   s->as.width, s->as.of, (int)s->as.stem, s->name);
}

/* The most bytes of a pointer file (latest and the like). */
enum { POINTER_MAX = 1024 };

bool zf_lfs_is(struct zf_source *src)
{
    static const char first[] = "version https://git-lfs";
    char head[sizeof first - 1];
    struct zf_err ignored = {.code = ZF_OK};

    return src->size >= sizeof head && src->size < POINTER_MAX &&
           zf_source_pread(src, head, sizeof head, 0, &ignored) &&
           memcmp(head, first, sizeof head) == 0;
}

bool zf_lfs_fail(struct zf_err *err)
{
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "this is a Git LFS pointer, not the file itself. Fetch it: git lfs pull");
}

const char *zf_lfs_find(struct zf_store *st, const char *only)
{
    struct zf_err ignored;

    for (struct zf_entries l = zf_store_entries(st, ""); l.e < l.end; l.e++) {
        if (l.e->kind != ZF_ENTRY_FILE || l.e->id.size >= POINTER_MAX ||
            (only && strcmp(only, l.e->name) != 0))
            continue;
        zf_auto(source) struct zf_source *src = zf_store_open(st, l.e->name, &ignored);
        if (src && zf_lfs_is(src))
            return l.e->name;
    }
    return NULL;
}

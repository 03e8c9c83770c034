/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the pickles in a file.  Nested archives go into a work list instead of a recursion. */
#include <zf/codec/code.h>

#include <stdio.h>
#include <string.h>

#include <zf/base/num.h>
#include <zf/base/out.h>

#include "find.h"

#define HEAD_BYTES 512u
#define FIRST_READ (1ull << 20)
#define MOST_NESTED 8u
/* Pickles of torch's old format: magic number, protocol, host, the object, storage keys; then storages. */
#define TORCH_PICKLES 5u

struct file_work {
    struct zf_source *src; /* a reference */
    char *member;          /* owned */
    unsigned depth;
};

struct file_look {
    const struct zf_limits *lim;
    zf_code_fn *fn;
    void *ctx;
    zf_vec(struct file_work) work;
    const struct file_work *now;
    uint64_t budget; /* bytes of pickles that may still be walked */
};

/* ---- reporting ------------------------------------------------------------------------------- */

/* True for damage, exceeded limits and unsupported formats, which are reported; other errors are failures. */
static bool file_tells(const struct zf_err *err)
{
    return err->code == ZF_E_FORMAT || err->code == ZF_E_UNSUPPORTED || err->code == ZF_E_LIMIT;
}

/* Writes a member's full name: "inner.zip!a/data.pkl". */
static void file_put_name(const struct file_look *f, const char *member, struct zf_out *out)
{
    const char *outer = f->now ? f->now->member : "";

    zf_out_str(out, outer);
    zf_out_str(out, *outer && *member ? "!" : "");
    zf_out_str(out, member);
}

static bool file_report_unread(struct file_look *f, const char *member, struct zf_err *err)
{
    const struct zf_code_walk none = {.why = *err};
    zf_auto(out) struct zf_out name = {0};

    file_put_name(f, member, &name);
    const struct zf_code_pickle p = {
        .member = zf_out_text(&name), .in = f->now->src, .walk = &none};
    return file_tells(err) && zf_out_ok(&name, err) && f->fn(f->ctx, &p, err);
}

/* ---- consecutive pickles --------------------------------------------------------------------- */

static bool file_is_pickle(const uint8_t *p, uint64_t n)
{
    static const char torch[] = "L119547037146038801333356L\n";

    return (n >= 2 && p[0] == 0x80 && p[1] <= 5) ||
           (n >= sizeof torch - 1 && memcmp(p, torch, sizeof torch - 1) == 0);
}

static bool file_is_torch(const char *p, uint64_t n)
{
    static const char magic[] = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19",
                      text[] = "119547037146038801333356";

    return n < 64 && (memmem(p, n, magic, sizeof magic - 1) || memmem(p, n, text, sizeof text - 1));
}

/* Reads as much as the pickle at `at` needs, and walks it.  *torch_out: is it torch's magic number? */
static bool file_walk(struct file_look *f, struct zf_source *src, uint64_t at,
                      struct zf_code_walk *out, bool *torch_out, struct zf_err *err)
{
    const uint64_t left = src->size - at,
                   most = left < f->lim->pickle_bytes ? left : f->lim->pickle_bytes;

    for (uint64_t n = FIRST_READ;; n *= 8) {
        n = n < most ? n : most;
        if (n > f->budget) {
            return zf_fail_limit(err, ZF_LIMIT_meta_memory, at,
                                 "there is more to search than the limit meta_memory allows");
        }
        f->budget -= n;
        zf_auto(mem) char *p = zf_source_slurp(src, at, n, err);
        struct zf_bytes in = zf_bytes_of(p, n);

        in.base = at;
        if (!p || !zf_code_walk(&in, f->lim, out, err))
            return false;
        f->budget += n - (out->end - at);
        *torch_out = out->why.code == ZF_OK && file_is_torch(p, out->end - at);
        if (!out->cut || n == most)
            return true;
        zf_code_walk_fini(out);
    }
}

/* Reports the pickles from `at` on.  sure: they must be pickles, so a broken one is reported, too. */
static bool file_pickles(struct file_look *f, const struct file_work *w, uint64_t at, bool sure,
                         struct zf_err *err)
{
    unsigned most = UINT32_MAX;

    for (unsigned i = 0; i < most && at < w->src->size; i++) {
        struct zf_code_walk walk;
        uint8_t head[32];
        bool torch;
        const uint64_t n = w->src->size - at < sizeof head ? w->src->size - at : sizeof head;

        if (!zf_source_pread(w->src, head, n, at, err))
            return false;
        if (i > 0 && most == UINT32_MAX && !file_is_pickle(head, n))
            break;
        if (!file_walk(f, w->src, at, &walk, &torch, err))
            return false;
        const bool whole = walk.why.code == ZF_OK;
        const struct zf_code_pickle p = {.member = w->member, .in = w->src, .walk = &walk};
        const bool ok = !(whole || walk.use.n > 0 || (sure && (i == 0 || most != UINT32_MAX))) ||
                        f->fn(f->ctx, &p, err);
        zf_code_walk_fini(&walk);
        if (!ok || !whole)
            return ok;
        most = torch && i == 0 ? TORCH_PICKLES : most;
        at = walk.end;
    }
    return true;
}

/* ---- archives -------------------------------------------------------------------------------- */

static bool file_push(struct file_look *f, struct zf_source *src, const char *member,
                      struct zf_err *err)
{
    zf_auto(out) struct zf_out name = {0};

    file_put_name(f, member, &name);
    const unsigned depth = f->now ? f->now->depth + 1 : 0;
    struct file_work *w = zf_out_ok(&name, err) ? zf_vec_push(&f->work, err) : NULL;
    if (!w)
        return false;
    *w = (struct file_work){
        .src = zf_source_ref(src), .member = strdup(zf_out_text(&name)), .depth = depth};
    return w->member || zf_fail_sys(err, "search an archive");
}

static bool file_has_end(const char *name, const char *const *end, size_t n)
{
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < n; i++)
        if (strcasecmp(dot, end[i]) == 0)
            return true;
    return false;
}

/* Is the file a pickle by its name, whatever its first bytes are? */
static bool file_named_pickle(const char *name)
{
    static const char *const end[] = {".pkl", ".pickle", ".pck",    ".pk",
                                      ".p",   ".dill",   ".joblib", ".metadata"};

    return file_has_end(name, end, sizeof end / sizeof *end);
}

/* Is the member a storage of torch.save ("archive/data/17"), which contains only numbers? */
static bool file_is_storage(const char *name)
{
    const char *slash = strrchr(name, '/');

    return slash && slash - name >= 4 && memcmp(slash - 4, "data", 4) == 0 && slash[1] &&
           strspn(slash + 1, "0123456789") == strlen(slash + 1);
}

static bool file_begins(const uint8_t *p, uint64_t n, const char *with, size_t k)
{
    return n >= k && memcmp(p, with, k) == 0;
}

static bool file_is_tar(const uint8_t *p, uint64_t n)
{
    return n == HEAD_BYTES && memcmp(p + 257, "ustar", 5) == 0;
}

/* Do the first bytes show a kind of file that is searched? */
static bool file_is_any(const uint8_t *p, uint64_t n)
{
    return file_is_pickle(p, n) || file_begins(p, n, "PK\3\4", 4) ||
           file_begins(p, n, "\x93NUMPY", 6) || file_is_tar(p, n);
}

static bool file_add_member(void *ctx, const struct find_member *m, struct zf_err *err)
{
    struct file_look *f = ctx;
    uint8_t head[HEAD_BYTES];

    if (m->size == 0 || file_is_storage(m->name))
        return true;
    zf_auto(source) struct zf_source *src = find_open(f->now->src, m, f->lim, err);
    const uint64_t n = !src || src->size > sizeof head ? sizeof head : src->size;

    if (!src || !zf_source_pread(src, head, n, 0, err))
        return file_tells(err) ? file_report_unread(f, m->name, err) : false;
    return (!file_named_pickle(m->name) && !file_is_any(head, n)) ||
           file_push(f, src, m->name, err);
}

/* Searches all archives in a file, which may hold several after one another, from the last to the first. */
static bool file_archives(struct file_look *f, struct zf_source *src, struct zf_err *err)
{
    uint64_t end = src->size, first = 0;

    do {
        if (!find_members(src, end, f->lim, file_add_member, f, &first, err))
            return file_tells(err) ? file_report_unread(f, "", err) : false;
        end = first < end ? first : 0;
    } while (end > 0);
    return true;
}

/* Adds the members of a tar file, which torch.save of 0.1 wrote. */
static bool file_tar(struct file_look *f, const struct file_work *w, struct zf_err *err)
{
    uint64_t at = 0;
    uint8_t head[HEAD_BYTES];

    while (zf_within(at, sizeof head, w->src->size)) {
        char digits[13] = "", name[101] = "";

        if (!zf_source_pread(w->src, head, sizeof head, at, err))
            return false;
        (void)memcpy(name, head, 100);
        (void)memcpy(digits, head + 124, 12);
        const uint64_t size = strtoull(digits, NULL, 8);
        at += sizeof head;
        if (!name[0] || size == 0 || !zf_within(at, size, w->src->size)) {
            at += name[0] ? 0 : w->src->size;
            continue;
        }
        zf_auto(source) struct zf_source *src = zf_window_new(w->src, at, size, NULL, err);
        if (!src || !file_push(f, src, name, err))
            return false;
        at += (size + HEAD_BYTES - 1) / HEAD_BYTES * HEAD_BYTES;
    }
    return true;
}

/* A numpy array of objects is a pickle after the header. */
static bool file_numpy(struct file_look *f, const struct file_work *w, struct zf_err *err)
{
    uint8_t head[12] = {0};
    uint64_t at = 10, n;

    if (w->src->size < sizeof head || !zf_source_pread(w->src, head, sizeof head, 0, err))
        return w->src->size < sizeof head;
    n = head[8] | (uint64_t)head[9] << 8;
    if (head[6] >= 2) {
        n |= (uint64_t)head[10] << 16 | (uint64_t)head[11] << 24;
        at = 12;
    }
    if (!zf_within(at, n, w->src->size) || n > FIRST_READ)
        return true;
    zf_auto(mem) char *text = zf_source_slurp(w->src, at, n, err);
    if (!text)
        return false;
    return !(strstr(text, "|O") || strstr(text, "'O")) || file_pickles(f, w, at + n, true, err);
}

static bool file_look_at(struct file_look *f, const struct file_work *w, struct zf_err *err)
{
    uint8_t head[HEAD_BYTES];
    const uint64_t n = w->src->size < sizeof head ? w->src->size : sizeof head;

    if (n == 0 || !zf_source_pread(w->src, head, n, 0, err))
        return n == 0;
    if (w->depth > MOST_NESTED)
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "archives are nested %u deep", MOST_NESTED);
    const char *name = *w->member ? w->member : w->src->name;
    const bool named = file_named_pickle(name);

    return file_begins(head, n, "PK\3\4", 4)      ? file_archives(f, w->src, err)
           : file_begins(head, n, "\x93NUMPY", 6) ? file_numpy(f, w, err)
           : file_is_tar(head, n)                 ? file_tar(f, w, err)
           : named || file_is_pickle(head, n)     ? file_pickles(f, w, 0, named, err)
                                                  : true;
}

bool zf_code_file(struct zf_source *src, const struct zf_limits *lim, zf_code_fn *fn, void *ctx,
                  struct zf_err *err)
{
    struct file_look f = {
        .lim = lim, .fn = fn, .ctx = ctx, .budget = zf_limits_meta(lim, src->size)};
    bool ok = file_push(&f, src, "", err);

    while (f.work.n > 0) {
        struct file_work now = f.work.at[--f.work.n];

        f.now = &now;
        ok = ok &&
             (file_look_at(&f, &now, err) || (file_tells(err) && file_report_unread(&f, "", err)));
        zf_source_unref(&now.src);
        free(now.member);
    }
    zf_vec_fini(&f.work);
    return ok;
}

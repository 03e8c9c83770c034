/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes the container of a torch.save file (zip, legacy stream or tar) by its first bytes; and what
 * all containers have in common. */
#include "file.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define HEAD_BYTES 512u

bool torch_bad(const struct zf_torch *t, struct zf_err *err, enum zf_code code, const char *fmt,
               ...)
{
    char msg[sizeof err->msg];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    (void)zf_fail(err, code, ZF_OFF_NONE, "%s", msg);
    return zf_err_in(err, "%s", t->src->name);
}

bool torch_no_room(const struct zf_torch *t, uint64_t n, struct zf_err *err)
{
    return torch_bad(t, err, ZF_E_NOMEM,
                     "out of memory for the %llu bytes of a pickle (limit pickle_bytes=%llu)",
                     (unsigned long long)n, (unsigned long long)t->lim.pickle_bytes);
}

enum container { OTHER, ZIP, LEGACY, TAR };

/* True if the first pickle is torch's magic number, in any protocol: a legacy stream. */
static bool file_is_legacy(const uint8_t *p, uint64_t n)
{
    static const uint8_t magic[] = {0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                    0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
    static const char text[] = "L119547037146038801333356L\n"; /* protocols 0 and 1 */
    uint64_t at = n > 2 && p[0] == 0x80 ? 2 : 0;

    at += at && n > 11 && p[2] == 0x95 ? 9 : 0; /* a frame, from protocol 4 on */
    return (n >= at + sizeof magic && memcmp(p + at, magic, sizeof magic) == 0) ||
           (n >= sizeof text - 1 && memcmp(p, text, sizeof text - 1) == 0);
}

static bool file_is_tar(const uint8_t *p, uint64_t n)
{
    static const char *const member[] = {"sys_info", "pickle", "tensors", "storages"};

    for (size_t i = 0; n >= HEAD_BYTES && i < sizeof member / sizeof *member; i++) {
        const char *name = (const char *)p;

        name += strncmp(name, "./", 2) == 0 ? 2 : 0;
        if (strncmp(name, member[i], strlen(member[i]) + 1) == 0 &&
            memcmp(p + 257, "ustar", 5) == 0)
            return true;
    }
    return false;
}

static enum container file_container_of(const uint8_t *p, uint64_t n)
{
    return n >= 4 && memcmp(p, "PK\3\4", 4) == 0 ? ZIP
           : file_is_legacy(p, n)                ? LEGACY
           : file_is_tar(p, n)                   ? TAR
                                                 : OTHER;
}

/* Reads the first *n_out bytes of src, at most HEAD_BYTES. */
static bool file_read_head(struct zf_source *src, uint8_t *head, uint64_t *n_out,
                           struct zf_err *err)
{
    memset(head, 0, HEAD_BYTES);
    *n_out = src->size < HEAD_BYTES ? src->size : HEAD_BYTES;
    return zf_source_pread(src, head, (size_t)*n_out, 0, err);
}

bool zf_torch_sniff(struct zf_source *src)
{
    uint8_t head[HEAD_BYTES];
    uint64_t n;
    struct zf_err err;

    if (!file_read_head(src, head, &n, &err))
        return false;
    enum container c = file_container_of(head, n);
    if (c != ZIP)
        return c != OTHER;
    /* All zip archives begin alike; torch's has everything in one folder, so its first member's name,
     * whose length is at offset 26, has a slash. */
    uint64_t len = head[26] | (uint64_t)head[27] << 8;
    return memchr(head + 30, '/', len < HEAD_BYTES - 30 ? len : HEAD_BYTES - 30) != NULL;
}

/* Names the kind of a file that is often mistaken for a checkpoint. */
static bool file_refuse_other(const struct zf_torch *t, const uint8_t *p, uint64_t n,
                              struct zf_err *err)
{
    static const struct {
        const char *head, *what;
        enum zf_code code;
    } row[] = {
        {"version https://git-lfs",
         "a Git LFS pointer: the file itself was not downloaded (git lfs pull)", ZF_E_UNKNOWN},
        {"<!DOC", "a web page, not a checkpoint: the download went wrong", ZF_E_UNKNOWN},
        {"<html", "a web page, not a checkpoint: the download went wrong", ZF_E_UNKNOWN},
        {"GGUF", "a GGUF file", ZF_E_UNKNOWN},
        {"\x93NUMPY", "a numpy file", ZF_E_UNKNOWN},
        {"PYTORCH1", "an archive of a preview of torch 1.0, which torch cannot read either",
         ZF_E_UNSUPPORTED},
        {"PK\5\6", "an empty zip archive", ZF_E_UNKNOWN},
        {"\x1f\x8b", "a gzip file: unpack it first", ZF_E_UNKNOWN},
        {"7z\xbc\xaf", "a 7z file: unpack it first", ZF_E_UNKNOWN},
        {"\x80", "a pickle, but not written by torch.save", ZF_E_UNKNOWN},
    };

    if (n == 0)
        return torch_bad(t, err, ZF_E_UNKNOWN, "the file is empty");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        size_t len = strlen(row[i].head);

        if (n >= len && memcmp(p, row[i].head, len) == 0)
            return torch_bad(t, err, row[i].code, "%s", row[i].what);
    }
    return torch_bad(
        t, err, ZF_E_UNKNOWN,
        "not a file of torch.save: neither a zip archive nor a pickle with torch's magic number");
}

static bool file_open_container(struct zf_torch *t, struct zf_err *err)
{
    uint8_t head[HEAD_BYTES];
    uint64_t n;

    if (!file_read_head(t->src, head, &n, err))
        return false;
    switch (file_container_of(head, n)) {
    case ZIP:
        return torch_zip_open(t, err);
    case LEGACY:
        return torch_legacy_open(t, err);
    case TAR:
        return torch_bad(t, err, ZF_E_UNSUPPORTED,
                         "a tar of torch 0.1 (2017), which is not read: "
                         "torch.save(torch.load(FILE, weights_only=False), NEW) writes it anew");
    case OTHER:
        break;
    }
    return file_refuse_other(t, head, n, err);
}

struct zf_torch *zf_torch_open(struct zf_source *src, const struct zf_limits *lim,
                               struct zf_err *err)
{
    return zf_torch_open_among(src, lim, NULL, err);
}

struct zf_torch *zf_torch_open_among(struct zf_source *src, const struct zf_limits *lim,
                                     struct zf_torch_known *w, struct zf_err *err)
{
    zf_auto(torch) struct zf_torch *t = calloc(1, sizeof *t);

    if (!t)
        return zf_null(zf_fail_sys(err, "allocate memory"));
    t->src = zf_source_ref(src);
    t->lim = *lim;
    t->known = w;
    t->arena = zf_arena_new(lim->pickle_memory, err);
    t->scratch = t->arena ? zf_arena_get(t->arena, 1, sizeof *t->scratch, err) : NULL;
    if (!t->scratch || !file_open_container(t, err))
        return NULL;
    t->known = NULL;
    return zf_give(t);
}

void zf_torch_free(struct zf_torch *t)
{
    if (!t)
        return;
    torch_store_free(t);
    zf_zip_free(t->zip);
    zf_source_unref(&t->src);
    zf_arena_free(t->arena);
    for (size_t i = 0; i < sizeof t->large / sizeof t->large[0]; i++)
        zf_arena_free(t->large[i]);
    free(t->met);
    free(t->text);
    free(t->number);
    free(t);
}

uint64_t zf_torch_weight(const struct zf_torch *t)
{
    const uint64_t member = 80; /* approximate bytes per member: entry, name and index */
    const uint64_t window = t->src->size < 512u << 10 ? t->src->size : 64u << 10;

    return zf_arena_used(t->arena) + (t->text ? t->text_bytes : 0) + window + member * t->n_records;
}

uint64_t zf_torch_pickle_bytes(const struct zf_torch *t)
{
    return t->pickle_bytes;
}

uint64_t zf_torch_n_records(const struct zf_torch *t)
{
    return t->n_records;
}

const struct zf_pv *zf_torch_root(const struct zf_torch *t)
{
    return t->root;
}

struct zf_arena *zf_torch_arena(struct zf_torch *t)
{
    return t->arena;
}

const char *zf_torch_name(const struct zf_torch *t)
{
    return t->src->name;
}

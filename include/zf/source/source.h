/* SPDX-License-Identifier: Apache-2.0 */
/* A source of bytes, read at an offset.  There is no file position: all calls may come from several
 * threads at once.  Sources are reference counted. */
#ifndef ZF_SOURCE_SOURCE_H
#define ZF_SOURCE_SOURCE_H

#include <stdatomic.h>
#include <sys/uio.h>
#include <time.h>

#include <zf/base/auto.h>
#include <zf/base/err.h>
#include <zf/base/limits.h>
#include <zf/base/prefetch.h>

struct zf_source;
struct zf_gate;
struct zf_cache;
struct zf_recipe;
struct zf_failures;

/* Metadata that chmod(2), chown(2) and link(2) change; they change ctime, too, but no byte. */
struct zf_identity_meta {
    uint32_t mode, uid, gid, nlink;
};

/* The identity of a file when it was opened first.  A later difference is ZF_E_STALE, unless a change of `meta` explains
 * it (src/source/same.c). */
struct zf_identity {
    uint64_t dev, ino, size;
    struct timespec mtime, ctime;
    struct zf_identity_meta meta;
};
_Static_assert(sizeof(struct zf_identity) == 3 * sizeof(uint64_t) + 2 * sizeof(struct timespec) +
                                                 sizeof(struct zf_identity_meta),
               "identities are compared and hashed as bytes");

/* State shared by all sources that read from one file; NULL = none. */
struct zf_shared {
    struct zf_gate *gate;   /* the file's gate (zf/source/gate.h) */
    struct zf_cache *cache; /* the store's cache of blocks decompressed from its files */
};

/* Reads of a source so far. */
struct zf_usage {
    uint64_t reads, bytes, errors;
};

/* The final location of bytes of a source, after following all sources in between. */
struct zf_trace {
    struct zf_source
        *src;          /* borrowed: a file, memory, or a source that cannot be followed further */
    uint64_t off;      /* offset of the first byte in src */
    uint64_t len;      /* bytes that are contiguous from there, at most the number asked for */
    uint32_t swap;     /* elements of this many bytes are byte-swapped; 0 = not swapped */
    const char *codec; /* NULL, or src has a compressed stream of this kind at off: … */
    uint64_t packed, skip; /* … its size, and the number of decompressed bytes to skip */
};

/* `count` rows of n bytes at off, off + step, …; they are stored `pitch` bytes apart in buf. */
struct zf_rows {
    void *buf;
    size_t n, pitch;
    uint64_t off, step, count;
};

struct zf_source_ops {
    const char *kind; /* "file", "window", "inflate", … */
    bool far;         /* remote: reads of bytes that are not cached wait for a network */
    /* Reads n bytes at off into buf: all of them or failure, never short.  The caller
     * (zf_source_pread) has checked that they lie inside the source. */
    bool (*pread)(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *err);
    /* The same scattered over iov[n_iov] (n = their sum); NULL = a loop over pread. */
    bool (*preadv)(struct zf_source *s, const struct iovec *iov, int n_iov, uint64_t off,
                   struct zf_err *err);
    /* Reads rows, with one check for all of them whether the file changed; NULL = a loop over
     * pread. */
    bool (*rows)(struct zf_source *s, const struct zf_rows *r, struct zf_err *err);
    /* The source that this one reads from, for messages and provenance: sets *parent_out (borrowed) and
     * turns *off into the parent's offset.  NULL = a file or memory, or the bytes are not the
     * parent's one to one. */
    bool (*origin)(struct zf_source *s, uint64_t *off, struct zf_source **parent_out);
    /* The identity of a file of a store; NULL = not a file. */
    struct zf_identity (*identity)(const struct zf_source *s);
    struct zf_shared (*shared)(const struct zf_source *s);
    /* The one source that all bytes come from, at any offsets; NULL = unknown, or several. */
    struct zf_source *(*only)(const struct zf_source *s);
    struct zf_usage (*usage)(const struct zf_source *s);
    /* Looks up the file once more and compares it with its identity. */
    bool (*unchanged)(struct zf_source *s, struct zf_err *err);
    /* Follows a step to a source whose bytes are not the same one to one; false = it ends here.
     * NULL = use origin. */
    bool (*trace)(struct zf_source *s, struct zf_trace *t);
    /* Prefetches bytes [off, off + n), which lie inside (zf/source/want.h): starts slow requests and
     * returns at once, or does nothing.  NULL = the source that origin leads to is asked instead. */
    void (*want)(struct zf_source *s, uint64_t off, uint64_t n, enum zf_prefetch how);
    /* Describes how to make the source again (zf/source/recipe.h); false or NULL: impossible. */
    bool (*recipe)(struct zf_source *s, struct zf_recipe *out);
    void (*fini)(struct zf_source *s); /* frees the contents and s itself */
};

struct zf_source {
    const struct zf_source_ops *ops;
    const char *name; /* path shown in messages, owned by the source; "" = nameless */
    uint64_t size;    /* bytes */
    uint64_t stored;  /* bytes on disk that it is made from; fewer than size if decompressed */
    atomic_uint refs;
    struct zf_failures
        *failures;     /* the store's record of failed reads; NULL = not opened by a store */
    atomic_bool begun; /* with failures: something was read from it */
};

/* Reads n bytes at off, after checking the range.  Errors: ZF_E_IO (also: range outside the source,
 * which is reported with both numbers), ZF_E_STALE.  The source's name is in err->path. */
bool zf_source_pread(struct zf_source *s, void *buf, size_t n, uint64_t off,
                     struct zf_err *err) ZF_CHECKED;

/* Bytes [off, off + n), malloc'ed and zero-terminated; the caller bounds n.  Errors: likewise; ZF_E_NOMEM. */
char *zf_source_slurp(struct zf_source *s, uint64_t off, uint64_t n, struct zf_err *err) ZF_CHECKED;
/* Reads all bytes; out: their SHA-256 in lower-case hex.  Errors: likewise; ZF_E_NOMEM. */
#define ZF_SHA256_HEX 65
bool zf_source_sha256(struct zf_source *s, char out[ZF_SHA256_HEX], struct zf_err *err) ZF_CHECKED;
/* Reads consecutive bytes from off on into iov; n_iov may exceed IOV_MAX. */
bool zf_source_preadv(struct zf_source *s, const struct iovec *iov, int n_iov, uint64_t off,
                      struct zf_err *err) ZF_CHECKED;

/* Reads all rows, or fails. */
bool zf_source_read_rows(struct zf_source *s, const struct zf_rows *r,
                         struct zf_err *err) ZF_CHECKED;

/* Follows origin() to the file (or memory) that holds byte `off` of s; *off becomes the offset there.
 * Stops at a source whose bytes are computed (inflate).  Borrowed. */
struct zf_source *zf_source_origin(struct zf_source *s, uint64_t *off);

/* Is it, or the source it reads from, remote?  Then callers should announce what they will read
 * (zf/source/want.h). */
bool zf_source_is_far(struct zf_source *s);
/* False: s is not a file. */
bool zf_source_identity(const struct zf_source *s, struct zf_identity *out);
/* State that readers of s share through its file.  Borrowed. */
struct zf_shared zf_source_shared(struct zf_source *s);
/* The one file with all bytes of s, found without a read; NULL: unknown, or several.  Borrowed. */
struct zf_source *zf_source_only_file(struct zf_source *s);
/* The location of bytes [off, off + len) of s, or of as many of them as are contiguous. */
struct zf_trace zf_source_trace(struct zf_source *s, uint64_t off, uint64_t len);

struct zf_source *zf_source_ref(struct zf_source *s);
/* Drops a reference and nulls the pointer; NULL inside is fine. */
void zf_source_unref(struct zf_source **s);

static inline void zf_auto_source(struct zf_source **s)
{
    zf_source_unref(s);
}

/* A source of bytes [off, off + len) of parent, on which it takes a reference.  The name is the
 * parent's, followed by "!name" unless name is NULL.  Errors: ZF_E_FORMAT outside the parent. */
struct zf_source *zf_window_new(struct zf_source *parent, uint64_t off, uint64_t len,
                                const char *name, struct zf_err *err) ZF_CHECKED;

/* The parent of a window, with *off turned into its offset: the same bytes without the window's bounds
 * and name.  Returns any other source unchanged.  Borrowed from s. */
struct zf_source *zf_window_of(struct zf_source *s, uint64_t *off);

/* A source of memory: owns p (freed with free) if `take`, else borrows it for ever. */
struct zf_source *zf_mem_new(const char *name, void *p, uint64_t n, bool take,
                             struct zf_err *err) ZF_CHECKED;

/* Decompresses a raw deflate stream, all of parent, which must give exactly `size` bytes with this
 * CRC-32 (else ZF_E_FORMAT at the read that finds it).  Random access: restart points are recorded as
 * reads pass.  Decompressed blocks are cached, up to lim->cache_bytes for all sources of one
 * directory store.  Once the CRC is found wrong, every read fails. */
struct zf_source *zf_inflate_new(struct zf_source *parent, uint64_t size, uint32_t crc,
                                 const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

/* Decompresses one or more zstd frames, all of parent, of `size` bytes; opening reads the first
 * frame's header only, the rest is checked when it is read.  Blocks are cached as for inflate; going
 * back beyond them decompresses again.  Without libzstd: ZF_E_UNSUPPORTED. */
struct zf_source *zf_zstd_new(struct zf_source *parent, uint64_t size, const struct zf_limits *lim,
                              struct zf_err *err) ZF_CHECKED;
/* The decompressed size of the zstd frames of parent: one pass over all of them, without keeping the
 * bytes.
 * Errors: ZF_E_FORMAT damaged or truncated; ZF_E_LIMIT more than max_bytes or lim->inflate_bytes
 * (refused as soon as it is seen); without libzstd ZF_E_UNSUPPORTED. */
bool zf_zstd_size(struct zf_source *parent, uint64_t max_bytes, const struct zf_limits *lim,
                  uint64_t *size_out, struct zf_err *err) ZF_CHECKED;

/* The same bytes as parent, read from it in blocks of `span` bytes, which are cached as for inflate:
 * for parents where reading one byte costs as much as reading a thousand.  For several readers at
 * once, or one that jumps, blocks get smaller, down to an eighth.  Opening reads nothing. */
struct zf_source *zf_kept_new(struct zf_source *parent, uint64_t span, const struct zf_limits *lim,
                              struct zf_err *err) ZF_CHECKED;

/* parent, byte-swapped per `width`-byte element (big-endian storages); width 2,
 * 4, 8, 16; complex types pass the width of their halves. */
struct zf_source *zf_swap_new(struct zf_source *parent, uint32_t width,
                              struct zf_err *err) ZF_CHECKED;

/* A description of lost bytes.  "FILE WHY" is a sentence if file is not empty ("x.pt" and "is
 * missing"), else why alone is one. */
struct zf_lost {
    /* The shard that is missing, short or damaged; "" = unknown.  NULL only as an argument. */
    const char *file;
    const char *why;
    bool unshaped; /* not even the tensor's shape is proved: never filled */
    /* One element that the lost bytes read as, repeated.  n = 0: reading them fails with ZF_E_IO. */
    struct zf_fill {
        uint8_t n, byte[16];
    } fill;
};
/* `size` lost bytes: every read fails with ZF_E_IO and this message. */
struct zf_source *zf_lost_new(uint64_t size, const char *why, struct zf_err *err) ZF_CHECKED;
/* `size` bytes that are lost from `cut` on, where an element begins; those before are in parent at
 * the same offsets (NULL if cut is 0).  Copies *how, takes its own reference on parent. */
struct zf_source *zf_lost_behind(struct zf_source *parent, uint64_t cut, uint64_t size,
                                 const struct zf_lost *how, struct zf_err *err) ZF_CHECKED;
/* Is byte `off` of s lost?  The answer holds for all bytes below *until.  If it is, *out is filled;
 * its texts are the source's. */
bool zf_source_lost(const struct zf_source *s, uint64_t off, uint64_t *until, struct zf_lost *out);

/* For implementing new kinds: allocates `each` bytes that start with a struct zf_source, the rest zero.  It has one
 * reference and its own copy of name.  Errors: ZF_E_NOMEM. */
void *zf_source_new(size_t each, const struct zf_source_ops *ops, const char *name, uint64_t size,
                    struct zf_err *err) ZF_CHECKED;
/* The same for the caller's own memory.  On failure nothing must be freed. */
bool zf_source_init(struct zf_source *s, const struct zf_source_ops *ops, const char *name,
                    uint64_t size, struct zf_err *err) ZF_CHECKED;
/* The counterpart, for ops->fini. */
void zf_source_fini(struct zf_source *s);

/* The first member of a source that reads from one other. */
struct zf_derived {
    struct zf_source src;
    struct zf_source *parent;
};
/* Allocates `each` bytes that start with a struct zf_derived, the rest zero, with a reference on parent.  `stored` is
 * the parent's, but at most `size`.  Errors: ZF_E_NOMEM. */
void *zf_derived_new(size_t each, const struct zf_source_ops *ops, const char *name, uint64_t size,
                     struct zf_source *parent, struct zf_err *err) ZF_CHECKED;
/* ops->fini for sources that own nothing else. */
void zf_derived_fini(struct zf_source *s);
static inline struct zf_source *zf_derived_parent(const struct zf_source *s)
{
    return ((const struct zf_derived *)s)->parent;
}

#endif

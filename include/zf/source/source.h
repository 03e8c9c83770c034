/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes at an offset.  There is no position: every call may come from any thread at once.
 * A source is counted; whoever keeps one holds a reference. */
#ifndef ZF_SOURCE_SOURCE_H
#define ZF_SOURCE_SOURCE_H

#include <stdatomic.h>
#include <sys/uio.h>
#include <time.h>

#include <zf/base/auto.h>
#include <zf/base/err.h>
#include <zf/base/limits.h>
#include <zf/base/soon.h>

struct zf_source;
struct zf_gate;
struct zf_cache;
struct zf_recipe;
struct zf_doubts;

/* Metadata that chmod(2), chown(2) and link(2) change, which move ctime and touch no byte. */
struct zf_identity_meta {
    uint32_t mode, uid, gid, nlink;
};

/* The identity of a file when it was first looked at.  A later difference is ZF_E_STALE, but for one that `meta` explains
 * (src/source/same.c). */
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
    struct zf_gate *gate;   /* of the file (zf/source/gate.h) */
    struct zf_cache *cache; /* of its store: blocks that were decompressed from its files */
};

/* Reads of a source so far. */
struct zf_usage {
    uint64_t reads, bytes, errors;
};

/* The final place of bytes of a source, when everything in between is followed. */
struct zf_trace {
    struct zf_source *src; /* borrowed: a file, memory, or what cannot be followed further */
    uint64_t off;          /* of the first byte in src */
    uint64_t len;      /* how many follow one another from there, at most as many as asked for */
    uint32_t swap;     /* elements of this many bytes are byte-swapped; 0 = they are not */
    const char *codec; /* NULL, or what src holds from off on is a stream of this kind: … */
    uint64_t packed, skip; /* … its bytes, and how many to skip of those it decompresses to */
};

/* `count` stretches of n bytes at off, off + step, …; each goes `pitch` bytes behind the one before. */
struct zf_rows {
    void *buf;
    size_t n, pitch;
    uint64_t off, step, count;
};

struct zf_source_ops {
    const char *kind; /* "file", "window", "inflate", … */
    bool far;         /* a read of what is not in memory waits for a network */
    /* Reads n bytes at off into buf: all of them or failure, never short.  The door has checked
     * that they lie inside the source. */
    bool (*pread)(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *err);
    /* The same scattered over iov[n_iov] (n = their sum); NULL = the door loops over pread. */
    bool (*preadv)(struct zf_source *s, const struct iovec *iov, int n_iov, uint64_t off,
                   struct zf_err *err);
    /* Stretches that are far apart, with one look at whether the file changed for all of them;
     * NULL = the door loops over pread. */
    bool (*rows)(struct zf_source *s, const struct zf_rows *r, struct zf_err *err);
    /* The source that this one reads from, for messages and provenance: sets *parent_out (borrowed) and
     * moves *off to the parent's offset.  NULL = this is a file or memory, or its bytes are not
     * the parent's one to one. */
    bool (*origin)(struct zf_source *s, uint64_t *off, struct zf_source **parent_out);
    /* Of a file of a store; NULL = this is none. */
    struct zf_identity (*identity)(const struct zf_source *s);
    struct zf_shared (*shared)(const struct zf_source *s);
    /* The one source that all of its bytes come from (not where in it); NULL = unknown, or several. */
    struct zf_source *(*only)(const struct zf_source *s);
    struct zf_usage (*usage)(const struct zf_source *s);
    /* Looks the file up once more: is it still the one that identity describes? */
    bool (*unchanged)(struct zf_source *s, struct zf_err *err);
    /* Follows one step that is not one to one, or not for all bytes; false = it ends here.  NULL =
     * as origin says. */
    bool (*trace)(struct zf_source *s, struct zf_trace *t);
    /* Bytes [off, off + n), which lie inside, will be read soon (zf/source/want.h): starts fetching
     * what is slow to come, and returns at once; or ignores it.  NULL = the source that origin leads to is asked
     * instead. */
    void (*want)(struct zf_source *s, uint64_t off, uint64_t n, enum zf_soon how);
    /* Says what it is made from (zf/source/recipe.h); false or NULL: that cannot be said. */
    bool (*recipe)(struct zf_source *s, struct zf_recipe *out);
    void (*fini)(struct zf_source *s); /* frees what is inside and s itself */
};

struct zf_source {
    const struct zf_source_ops *ops;
    const char *name; /* path shown in messages, owned by the source; "" = nameless */
    uint64_t size;    /* bytes */
    uint64_t stored;  /* bytes on disk they are made from; fewer than size when decompressed */
    atomic_uint refs;
    /* of the store that opened it, which hears of failed reads; NULL = none */
    struct zf_doubts *doubts;
    atomic_bool begun; /* of such a store: something of it was read */
};

/* The checking door in front of every source.  Errors: ZF_E_IO (also: range outside the source,
 * which is reported with both numbers), ZF_E_STALE.  The source's name is in err->path. */
bool zf_source_pread(struct zf_source *s, void *buf, size_t n, uint64_t off,
                     struct zf_err *err) ZF_CHECKED;

/* Bytes [off, off + n) in memory, malloc'ed and terminated; who calls bounds n.  Errors: likewise; ZF_E_NOMEM. */
char *zf_source_slurp(struct zf_source *s, uint64_t off, uint64_t n, struct zf_err *err) ZF_CHECKED;
/* The SHA-256 of all of its bytes, which are read, in lower-case digits.  Errors: likewise; ZF_E_NOMEM. */
#define ZF_SHA256_HEX 65
bool zf_source_sha256(struct zf_source *s, char out[ZF_SHA256_HEX], struct zf_err *err) ZF_CHECKED;
/* Scatters consecutive bytes from off on over iov; n_iov may exceed IOV_MAX. */
bool zf_source_preadv(struct zf_source *s, const struct iovec *iov, int n_iov, uint64_t off,
                      struct zf_err *err) ZF_CHECKED;

/* All of the rows, or failure. */
bool zf_source_read_rows(struct zf_source *s, const struct zf_rows *r,
                         struct zf_err *err) ZF_CHECKED;

/* Follows origin() to the file (or memory) that holds byte `off` of s; moves *off along.  Stops
 * at a source whose bytes are made (inflate).  Borrows. */
struct zf_source *zf_source_origin(struct zf_source *s, uint64_t *off);

/* Is it, or what it reads from, far away?  Who knows what it will need next then says so
 * (zf/source/want.h). */
bool zf_source_is_far(struct zf_source *s);
/* False when s is no file. */
bool zf_source_identity(const struct zf_source *s, struct zf_identity *out);
/* State that readers of s share through its file.  Borrows. */
struct zf_shared zf_source_shared(struct zf_source *s);
/* The one file that all bytes of s lie in, told without a read; NULL: not known so, or several.  Borrows. */
struct zf_source *zf_source_only_file(struct zf_source *s);
/* Bytes [off, off + len) of s, or as many of them as are contiguous. */
struct zf_trace zf_source_trace(struct zf_source *s, uint64_t off, uint64_t len);

struct zf_source *zf_source_ref(struct zf_source *s);
/* Drops a reference and nulls the pointer; NULL inside is fine. */
void zf_source_unref(struct zf_source **s);

static inline void zf_auto_source(struct zf_source **s)
{
    zf_source_unref(s);
}

/* [off, off + len) of parent, on which it takes its own reference.  The name is the parent's, with
 * "!name" behind it unless name is NULL.  Errors: ZF_E_FORMAT outside the parent. */
struct zf_source *zf_window_new(struct zf_source *parent, uint64_t off, uint64_t len,
                                const char *name, struct zf_err *err) ZF_CHECKED;

/* The source behind a window, with *off moved accordingly: the same bytes without the window's bounds and
 * name.  Any other source as it is.  Borrowed from s. */
struct zf_source *zf_window_of(struct zf_source *s, uint64_t *off);

/* Memory: takes p (freed with free) when `take`, else borrows it for ever. */
struct zf_source *zf_mem_new(const char *name, void *p, uint64_t n, bool take,
                             struct zf_err *err) ZF_CHECKED;

/* Raw deflate stream = all of parent, inflating to exactly `size` bytes (more or fewer, or a CRC-32
 * other than crc: ZF_E_FORMAT at the read that meets it).  Random access: an index of restart
 * points is built on first use.  Decompressed blocks are kept within lim->cache_bytes, a bound that
 * all sources of one directory store share.  Once the CRC is known to be wrong every read fails. */
struct zf_source *zf_inflate_new(struct zf_source *parent, uint64_t size, uint32_t crc,
                                 const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

/* One or more zstd frames = all of parent, holding `size` bytes; opening looks at the first frame's
 * header only, the rest is checked when it is read.  Blocks are kept as for inflate; going back
 * further than they reach decompresses anew.  Without libzstd: ZF_E_UNSUPPORTED. */
struct zf_source *zf_zstd_new(struct zf_source *parent, uint64_t size, const struct zf_limits *lim,
                              struct zf_err *err) ZF_CHECKED;
/* How many bytes the zstd frames of parent hold: one pass over all of them, whose pieces are thrown
 * away, so that the answer costs no memory.
 * Errors: ZF_E_FORMAT damaged or cut; ZF_E_LIMIT more than max_bytes or lim->inflate_bytes (refused
 * as soon as it is seen); without libzstd ZF_E_UNSUPPORTED. */
bool zf_zstd_size(struct zf_source *parent, uint64_t max_bytes, const struct zf_limits *lim,
                  uint64_t *size_out, struct zf_err *err) ZF_CHECKED;

/* The same bytes as parent, read from it in blocks of `span` bytes, which are kept as for
 * inflate: where a byte costs as much as a thousand beside it.  For several readers at once, or one
 * that jumps, blocks are a half or a quarter of that.  Opening reads nothing. */
struct zf_source *zf_kept_new(struct zf_source *parent, uint64_t span, const struct zf_limits *lim,
                              struct zf_err *err) ZF_CHECKED;

/* parent, byte-swapped per `width`-byte element (big-endian storages); width 2,
 * 4, 8, 16; complex types pass the width of their halves. */
struct zf_source *zf_swap_new(struct zf_source *parent, uint32_t width,
                              struct zf_err *err) ZF_CHECKED;

/* A description of lost bytes.  "FILE WHY" is a sentence when file is not empty ("x.pt" and "is
 * missing"), else why is one. */
struct zf_lost {
    /* The shard that is missing, short or damaged; "" = not known.  Only who makes one may say NULL. */
    const char *file;
    const char *why;
    bool unshaped; /* not even the tensor's shape is proven: never filled */
    /* One element, which they read as, repeated.  n = 0: reading them fails with ZF_E_IO. */
    struct zf_fill {
        uint8_t n, byte[16];
    } fill;
};
/* `size` bytes that are known to be lost: every read fails with ZF_E_IO and this sentence. */
struct zf_source *zf_lost_new(uint64_t size, const char *why, struct zf_err *err) ZF_CHECKED;
/* The same of those from `cut` on, where an element begins; those before are in parent at the
 * same offsets (NULL when cut is 0).  Copies *how, takes its own reference on parent. */
struct zf_source *zf_lost_behind(struct zf_source *parent, uint64_t cut, uint64_t size,
                                 const struct zf_lost *how, struct zf_err *err) ZF_CHECKED;
/* Is byte `off` of s known to be lost?  The answer holds for all bytes below *until.  *out (its
 * texts are the source's) is filled when it is. */
bool zf_source_lost(const struct zf_source *s, uint64_t off, uint64_t *until, struct zf_lost *out);

/* For makers of new kinds: `each` bytes that begin with a struct zf_source, zero behind that.  It has one
 * reference and its own copy of name.  Errors: ZF_E_NOMEM. */
void *zf_source_new(size_t each, const struct zf_source_ops *ops, const char *name, uint64_t size,
                    struct zf_err *err) ZF_CHECKED;
/* The same of memory that is the caller's.  On failure nothing is to be freed. */
bool zf_source_init(struct zf_source *s, const struct zf_source_ops *ops, const char *name,
                    uint64_t size, struct zf_err *err) ZF_CHECKED;
/* The other end, for ops->fini. */
void zf_source_fini(struct zf_source *s);

/* A source that reads from one other: what its struct begins with. */
struct zf_derived {
    struct zf_source src;
    struct zf_source *parent;
};
/* For makers of these: `each` bytes that begin so, zero behind that, with a reference on parent.  They are made
 * from as many bytes on disk as parent is, if that is fewer than `size`.  Errors: ZF_E_NOMEM. */
void *zf_derived_new(size_t each, const struct zf_source_ops *ops, const char *name, uint64_t size,
                     struct zf_source *parent, struct zf_err *err) ZF_CHECKED;
/* As ops->fini, where nothing else is owned. */
void zf_derived_fini(struct zf_source *s);
static inline struct zf_source *zf_derived_parent(const struct zf_source *s)
{
    return ((const struct zf_derived *)s)->parent;
}

#endif

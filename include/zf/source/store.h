/* SPDX-License-Identifier: Apache-2.0 */
/* A store of files under a root: a directory, a remote address, or memory (tests, fuzzing).  Paths
 * are relative, '/'-separated, without "." or "..".  A directory store never leaves its root
 * (openat2 with RESOLVE_BENEATH), or, for a snapshot in a Hugging Face cache, the cache's directory,
 * unless links are followed (zf_dir_opts). */
#ifndef ZF_SOURCE_STORE_H
#define ZF_SOURCE_STORE_H

#include <sys/types.h>

#include <zf/source/source.h>

struct zf_store;

/* Opens the directory `path`, or the directory of the file `path`; zf_store_focus is then the file
 * (for a link that leads out of its directory, its target).  Errors: ZF_E_NOENT, ZF_E_IO; neither
 * file nor directory: ZF_E_UNKNOWN. */
struct zf_store *zf_store_dir(const char *path, const struct zf_limits *lim,
                              struct zf_err *err) ZF_CHECKED;

/* Options of a directory store. */
struct zf_dir_opts {
    /* enter other file systems that are mounted below the directory */
    bool xdev;
    bool links; /* follow links that lead out of the directory */
    bool
        shared; /* other users may read, too: a file is stale once it lost a right to read or its owner changed */
    bool strict; /* a file is stale even if only its mode, owner or number of links changed */
};

/* As zf_store_dir, with options; how: NULL = the default. */
struct zf_store *zf_store_dir_with(const char *path, const struct zf_dir_opts *how,
                                   const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

/* A view of the store's directory `dir` ("" = all of it) as a store.  Returns a new reference; files
 * opened through it are shared with the parent.  Errors: ZF_E_NOENT not a directory. */
struct zf_store *zf_store_sub(struct zf_store *st, const char *dir, struct zf_err *err) ZF_CHECKED;

struct zf_store *zf_store_ref(struct zf_store *st);
void zf_store_unref(struct zf_store **st);
static inline void zf_auto_store(struct zf_store **st)
{
    zf_store_unref(st);
}

/* The file that the user named, or NULL. */
const char *zf_store_focus(const struct zf_store *st);
/* The path that the user gave (for a sub-store, followed by its directory), for messages. */
const char *zf_store_name(const struct zf_store *st);
/* A sub-store's directory in the store it is a view of; else "". */
const char *zf_store_below(const struct zf_store *st);
/* The last component of the store's path with links resolved: "global_step5". */
const char *zf_store_base(const struct zf_store *st);

enum zf_entry_kind {
    ZF_ENTRY_FILE,
    ZF_ENTRY_DIR,
    /* FIFO, device, broken or outward link, directory on another file system: opening it fails with
     * an error that names the kind */
    ZF_ENTRY_OTHER
};
struct zf_entry {
    const char *name; /* one component; owned by the listing */
    const char *what; /* "a file", "a directory", "a FIFO" …; static */
    enum zf_entry_kind kind;
    /* Changed within the clock tick in which it was listed: another change may leave id the same. */
    bool fresh;
    int unknown; /* errno, if its attributes could not be read (kind: ZF_ENTRY_OTHER); else 0 */
    bool
        exact; /* set by the kind: id changes whenever the bytes do, so that comparing id is enough */
    /* set by the kind: the listing had no attributes, and the file took a request of its own */
    bool asked;
    bool later;            /* set by the store: opened by zf_store_open_later */
    uint32_t place;        /* set by the store: index in the order of reading */
    struct zf_identity id; /* of a link: its target's */
};
/* The entries of `dir` ("" = root) in natural order.  Borrowed from a listing that the store makes
 * once and keeps, so repeated calls are cheap.  Errors: ZF_E_NOENT, ZF_E_LIMIT dir_entries,
 * ZF_E_IO. */
bool zf_store_list(struct zf_store *st, const char *dir, const struct zf_entry **entries_out,
                   size_t *n_out, struct zf_err *err) ZF_CHECKED;

/* The same for loops; a directory that cannot be listed counts as empty:
 * for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++) */
struct zf_entries {
    const struct zf_entry *e, *end;
};
struct zf_entries zf_store_entries(struct zf_store *st, const char *dir);

/* Is there an entry of this kind?  Uses the directory's listing; false also if that cannot be read. */
bool zf_store_has(struct zf_store *st, const char *path, enum zf_entry_kind kind);

/* The entry at `path`, borrowed from its directory's listing; NULL: it does not exist, or the listing
 * cannot be read. */
const struct zf_entry *zf_store_find(struct zf_store *st, const char *path);

/* False, with err->sys EXDEV, if the path leads out of the directory or to another file system and so
 * must not be opened.  Whether it exists does not matter. */
bool zf_store_reaches(struct zf_store *st, const char *path, struct zf_err *err) ZF_CHECKED;

/* Opens a file; returns a reference (one source per path, however often it is opened).  Records size,
 * mtime, ctime, device and inode at the first opening; a later difference is ZF_E_STALE at the read
 * that finds it and at all later ones, a shorter file ZF_E_IO.  A file that was deleted or replaced is
 * stale, too, even while its descriptor is open; one whose mode, owner or number of links changed is
 * not, unless by option: see src/source/same.c.  FIFOs and devices are refused without being opened.
 * Errors: ZF_E_NOENT, ZF_E_IO, ZF_E_FORMAT not a regular file, a dangling link. */
struct zf_source *zf_store_open(struct zf_store *st, const char *path,
                                struct zf_err *err) ZF_CHECKED;

/* The same, but the file is opened by its first read, and must then still be as its directory's
 * listing says (else ZF_E_STALE; ZF_E_IO shorter).  For a checkpoint of 10^5 files of which few are
 * read.  Files whose entry proves too little (fresh ones) are opened at once. */
struct zf_source *zf_store_open_later(struct zf_store *st, const char *path,
                                      struct zf_err *err) ZF_CHECKED;

/* Declares that the checkpoint relies on the listing of `dir`: on its names and on the files, even if
 * they were not opened.  zf_store_unchanged checks all of them; a change after that is found by the
 * file's first read.  Fresh files (zf_entry) are opened at once.  Errors: of zf_store_list,
 * zf_store_open. */
bool zf_store_rely(struct zf_store *st, const char *dir, struct zf_err *err) ZF_CHECKED;

/* Checks once more, by path, every file that was opened and every directory with such a file, which
 * proves that all of them existed together at one moment.  To be called after a checkpoint was read.
 * Errors: ZF_E_STALE with the path that changed. */
bool zf_store_unchanged(struct zf_store *st, struct zf_err *err) ZF_CHECKED;

/* If it is unknown whether something exists or what it contains (an I/O error, missing permission, a
 * failing server), a search that treats it as missing could silently end at something else.  So the
 * store counts such failures (zf_err_unknown) of listings, of entries' attributes, of openings and of
 * reads, keeps each once, and repeats it for the same request until it is forgotten.  Sub-stores
 * share the record.  Returns the count so far, for `since` below. */
uint64_t zf_store_failures(struct zf_store *st);
/* The i-th failure that occurred, perhaps again, since zf_store_failures returned `since`; false: there
 * are no more (of very many, not all are kept). */
bool zf_store_failure(struct zf_store *st, uint64_t since, size_t i, struct zf_err *out);
/* The number of different failures since then, kept or not (counting stops at some thousands). */
size_t zf_store_failures_since(struct zf_store *st, uint64_t since);
/* Forgets failures that first occurred since then: they were reported, or nothing depends on them.  Those recorded in
 * listings occur again when the listing is used. */
void zf_store_forget_failures(struct zf_store *st, uint64_t since);

/* The number of files that may be requested at once where that is mostly waiting: struct zf_ahead_work. */
uint32_t zf_store_ahead(const struct zf_store *st);

/* Announces n files that will be read, for zf_begun; files read already do not count again. */
void zf_store_announce(struct zf_store *st, const char *const *path, size_t n);

/* Reads a small file completely (at most max_bytes, else ZF_E_LIMIT); returns a zero-terminated,
 * malloc'ed copy. */
char *zf_store_slurp(struct zf_store *st, const char *path, uint64_t max_bytes, uint64_t *n_out,
                     struct zf_err *err) ZF_CHECKED;

/* Checks every open file of all stores of the process, by the kernel's cached attributes: closes the descriptors of stale
 * and deleted files, so that their space on the disk is freed, and reports all changes since the last call that were
 * accepted as harmless (zf_dir_opts) by one call of say, with the first file.  For a mount: every few seconds, from one
 * thread. */
void zf_files_look(void (*say)(void *ctx, const struct zf_err *what), void *ctx);

/* The newest mtime among the files opened so far. */
struct timespec zf_store_mtime(const struct zf_store *st);

/* A file of the store, and what was read from it so far. */
struct zf_file_stats {
    const char *path;
    const struct zf_identity *id; /* when it was opened first; NULL: unknown */
    uint64_t size, reads, bytes, errors;
};
/* Calls fn for every file opened so far, sorted by path; fn must not use the store. */
typedef void zf_file_stats_fn(void *ctx, const struct zf_file_stats *s);
void zf_store_stats(const struct zf_store *st, zf_file_stats_fn *fn, void *ctx);
/* The path of the file relative to st, a sub-store; NULL: it is outside of st.  Borrowed from path. */
const char *zf_store_inside(const struct zf_store *st, const char *path);

/* A host that bytes were fetched from, with counters. */
struct zf_host_stats {
    const char *host; /* "bucket.s3.amazonaws.com", with ":port" if the address has one */
    uint64_t requests, retries, bytes, errors;
    uint64_t hits; /* blocks found in the memory or disk cache */
};
/* Calls fn for every host that the store sent requests to; none for local files. */
typedef void zf_host_stats_fn(void *ctx, const struct zf_host_stats *s);
void zf_store_hosts(const struct zf_store *st, zf_host_stats_fn *fn, void *ctx);

/* Is it remote (opened by an address)?  Then several files should be read at once. */
bool zf_store_is_far(const struct zf_store *st);

/* Is it a directory on a network or FUSE file system?  Changes may be seen late there (src/source/place.h). */
bool zf_store_lags(const struct zf_store *st);

/* Was its file system slow so far, as a server is?  Then requests should be made concurrently (zf_ahead_work.slow). */
bool zf_store_is_slow(const struct zf_store *st);

/* Files that will be opened one after the other, in about this order: on slow storage, threads open them ahead.
 * Failures are reported by the regular opening. */
struct zf_expect;
/* Starts opening these files (paths are copied).  begin (or NULL) is called for each open file: to read its first bytes,
 * which the file system then caches.  NULL: opening ahead gains nothing here. */
struct zf_expect *zf_store_expect(struct zf_store *st, const char *const *path, size_t n,
                                  void (*begin)(struct zf_source *src));
/* The same for the files in `dir` whose names fit. */
struct zf_expect *zf_store_expect_in(struct zf_store *st, const char *dir,
                                     bool (*is)(const char *name),
                                     void (*begin)(struct zf_source *src));
/* Waits until `path`, if it is among them, was opened or has failed.  x: NULL is fine. */
void zf_expect_reach(struct zf_expect *x, const char *path);
/* Waits for all files. */
void zf_expect_all(struct zf_expect *x);
void zf_expect_free(struct zf_expect *x);
static inline void zf_auto_expect(struct zf_expect **x)
{
    zf_expect_free(*x);
}

/* Opens a store by a path or an address, as the user gave it: for code that opens several. */
struct zf_opener {
    struct zf_store *(*open)(void *ctx, const char *where, const struct zf_limits *lim,
                             struct zf_err *err);
    void *ctx;
};
/* how: NULL = zf_store_dir. */
struct zf_store *zf_store_by(const struct zf_opener *how, const char *where,
                             const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

#endif

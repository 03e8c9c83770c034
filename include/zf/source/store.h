/* SPDX-License-Identifier: Apache-2.0 */
/* Named sources under a root: a directory, or memory (tests, fuzzing).  Paths are relative,
 * '/'-separated, without "." or "..".  A directory store never leaves its root
 * (openat2 with RESOLVE_BENEATH), that of a snapshot of a Hugging Face cache not the cache's directory, unless it is
 * told to follow links (zf_dir_opts). */
#ifndef ZF_SOURCE_STORE_H
#define ZF_SOURCE_STORE_H

#include <sys/types.h>

#include <zf/source/source.h>

struct zf_store;

/* Opens the directory, or the directory that holds the file `path`; then zf_store_focus names the
 * file (a link that leads away from its directory: its target).  Errors: ZF_E_NOENT,
 * ZF_E_IO; neither file nor directory: ZF_E_UNKNOWN. */
struct zf_store *zf_store_dir(const char *path, const struct zf_limits *lim,
                              struct zf_err *err) ZF_CHECKED;

/* Options of a directory store. */
struct zf_dir_opts {
    /* goes into other file systems that are mounted below the directory (its own mount, say) */
    bool xdev;
    bool links; /* follows links that leave the directory, wherever they lead */
    bool
        shared; /* others see what is read: a file that is closed to somebody, or another's, is stale */
    bool strict; /* one whose mode, owner or number of links changed, and nothing else, is stale */
};

/* The same; how: NULL = the default. */
struct zf_store *zf_store_dir_with(const char *path, const struct zf_dir_opts *how,
                                   const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

/* The same store seen from its directory `dir` ("" = itself).  Gives a reference of its own; files
 * opened through it belong to the parent's table.  Errors: ZF_E_NOENT not a directory. */
struct zf_store *zf_store_sub(struct zf_store *st, const char *dir, struct zf_err *err) ZF_CHECKED;

struct zf_store *zf_store_ref(struct zf_store *st);
void zf_store_unref(struct zf_store **st);
static inline void zf_auto_store(struct zf_store **st)
{
    zf_store_unref(st);
}

/* The one file that the user pointed at, or NULL. */
const char *zf_store_focus(const struct zf_store *st);
/* The path the user gave (a sub-store: with its directory behind it), for messages. */
const char *zf_store_name(const struct zf_store *st);
/* Of a sub-store: its directory in the store that it is a part of; else "". */
const char *zf_store_below(const struct zf_store *st);
/* The last component of that path with links resolved: "global_step5". */
const char *zf_store_base(const struct zf_store *st);

enum zf_entry_kind {
    ZF_ENTRY_FILE,
    ZF_ENTRY_DIR,
    /* FIFO, device, broken or outward link, directory of another file system: opening it fails and
     * says which */
    ZF_ENTRY_OTHER
};
struct zf_entry {
    const char *name; /* one component; owned by the listing */
    const char *what; /* "a file", "a directory", "a FIFO" …; static */
    enum zf_entry_kind kind;
    /* Perhaps looked at within the tick of the clock that is in ctime: a change may not move id. */
    bool fresh;
    int unknown; /* errno, when it could not be looked at (kind: ZF_ENTRY_OTHER); else 0 */
    bool exact;  /* id changes whenever the bytes do, without any other look: set by the kind */
    /* set by the kind: the listing does not say what it is, so that the file itself was asked */
    bool asked;
    bool later;            /* set by the store: opened by zf_store_open_later */
    uint32_t place;        /* of the store: where it was among the names as they were read */
    struct zf_identity id; /* of what a link leads to */
};
/* The names in `dir` ("" = root) in natural order.  Borrowed from a listing that the store keeps
 * (and makes once, at the first question), so callers may ask again and again.  Errors: ZF_E_NOENT,
 * ZF_E_LIMIT dir_entries, ZF_E_IO. */
bool zf_store_list(struct zf_store *st, const char *dir, const struct zf_entry **entries_out,
                   size_t *n_out, struct zf_err *err) ZF_CHECKED;

/* The same, for a loop in which a directory that cannot be listed counts as empty:
 * for (struct zf_entries l = zf_store_entries(st, dir); l.e < l.end; l.e++) */
struct zf_entries {
    const struct zf_entry *e, *end;
};
struct zf_entries zf_store_entries(struct zf_store *st, const char *dir);

/* Is there such an entry?  Answers from the listing; false also when its directory cannot
 * be read. */
bool zf_store_has(struct zf_store *st, const char *path, enum zf_entry_kind kind);

/* The entry at `path`, borrowed from its directory's listing; NULL: nothing is there, or that cannot
 * be read. */
const struct zf_entry *zf_store_find(struct zf_store *st, const char *path);

/* May this path be opened as far as its place goes?  False, and err->sys is EXDEV, when it leads out
 * of the directory or to another file system; that nothing is there does not count. */
bool zf_store_reaches(struct zf_store *st, const char *path, struct zf_err *err) ZF_CHECKED;

/* Gives a reference to the file (one source a path, however often it is asked for).  Remembers
 * size, mtime, ctime, device and inode at the first opening; a later difference is ZF_E_STALE at
 * the read that meets it and at all later ones, a shorter file ZF_E_IO.  A file that was deleted or
 * replaced is stale too, even while its descriptor is held; one whose mode, owner or number of links
 * changed is not, unless asked for: see src/source/same.c.  FIFOs and
 * devices are refused without being opened.  Errors: ZF_E_NOENT, ZF_E_IO, ZF_E_FORMAT not a regular
 * file, a link to nothing. */
struct zf_source *zf_store_open(struct zf_store *st, const char *path,
                                struct zf_err *err) ZF_CHECKED;

/* The same without opening the file: its directory is listed, and the first read opens what must
 * still be as the listing says (else ZF_E_STALE; ZF_E_IO shorter).  For a checkpoint of 10^5 files of
 * which few are read.  What the listing cannot vouch for is opened at once. */
struct zf_source *zf_store_open_later(struct zf_store *st, const char *path,
                                      struct zf_err *err) ZF_CHECKED;

/* The checkpoint relies on the listing of `dir`: it is made of its names and of the files
 * behind them, though none of them may have been opened.  To zf_store_unchanged they count as if
 * they all had been; a first read meets what changed later.  Files that may have been written in the
 * moment they were listed are opened at once.  Errors: of zf_store_list, zf_store_open. */
bool zf_store_rely(struct zf_store *st, const char *dir, struct zf_err *err) ZF_CHECKED;

/* Looks at every file that was opened, and at every directory in which one was, once more by its
 * path: was all this there at one and the same moment?  To be asked when a checkpoint has been read
 * through.  Errors: ZF_E_STALE with the path that changed. */
bool zf_store_unchanged(struct zf_store *st, struct zf_err *err) ZF_CHECKED;

/* Where it cannot be known what is there or what it holds (an I/O error, missing permission, a
 * server that fails), a search that goes on as if nothing were there could end at something else
 * without a word.  So the store counts such failures (zf_err_unknown) of listings, of entries
 * that cannot be looked at, of openings and of reads, keeps each once, and answers the same
 * question in the same way until it is settled.  Sub-stores have them in common. */
uint64_t zf_store_doubts(struct zf_store *st);
/* The i-th of them that was met, perhaps again, since zf_store_doubts said `since`; false: there
 * are no more (of very many not all are kept). */
bool zf_store_doubt(struct zf_store *st, uint64_t since, size_t i, struct zf_err *out);
/* How many different ones were met since then, kept or not (of some thousands no more are counted). */
size_t zf_store_doubts_since(struct zf_store *st, uint64_t since);
/* Forgets those that were first met since then: they were reported, or nothing depends on them.  What is kept
 * in listings is met again by whoever asks for one. */
void zf_store_forget_doubts(struct zf_store *st, uint64_t since);

/* How many of its files may be asked for at once where that is mostly waiting: struct zf_ahead_work. */
uint32_t zf_store_ahead(const struct zf_store *st);

/* n files will be read soon: for zf_begun, where those that were begun do not count again. */
void zf_store_announce(struct zf_store *st, const char *const *path, size_t n);

/* Reads a whole small file (at most max_bytes, else ZF_E_LIMIT); gives a terminated
 * malloc'ed copy. */
char *zf_store_slurp(struct zf_store *st, const char *path, uint64_t max_bytes, uint64_t *n_out,
                     struct zf_err *err) ZF_CHECKED;

/* Looks at every file that is held open, of all stores of the process, as far as the kernel knows by itself: the
 * descriptors of those that are stale or deleted are closed, so that their space on the disk is given back, and of all
 * changes since the last call that were taken for harmless (zf_dir_opts) say hears once, with the first file.  For a
 * process that serves: every few seconds, from one thread. */
void zf_files_look(void (*say)(void *ctx, const struct zf_err *what), void *ctx);

/* The newest mtime among the files opened so far. */
struct timespec zf_store_mtime(const struct zf_store *st);

/* A file of the store, and what was read from it so far. */
struct zf_file_stats {
    const char *path;
    const struct zf_identity *id; /* what it was when it was first looked at; NULL: not known */
    uint64_t size, reads, bytes, errors;
};
/* Calls fn for every file opened so far, in the order of their paths; fn must not use the store. */
typedef void zf_file_stats_fn(void *ctx, const struct zf_file_stats *s);
void zf_store_stats(const struct zf_store *st, zf_file_stats_fn *fn, void *ctx);
/* The path of the file relative to st, a sub-store; NULL: it is outside of st.  Borrowed from path. */
const char *zf_store_inside(const struct zf_store *st, const char *path);

/* A host that bytes were fetched from, and what it took. */
struct zf_host_stats {
    const char *host; /* "bucket.s3.amazonaws.com", with ":port" where that was said */
    uint64_t requests, retries, bytes, errors;
    uint64_t hits; /* blocks that were asked for and were in memory already, or on disk */
};
/* Calls fn for every host that the store asked; none for one of local files. */
typedef void zf_host_stats_fn(void *ctx, const struct zf_host_stats *s);
void zf_store_hosts(const struct zf_store *st, zf_host_stats_fn *fn, void *ctx);

/* Is it behind an address?  Then whoever reads many files does well to read several at once. */
bool zf_store_is_far(const struct zf_store *st);

/* Is it a directory of a file system across a network or in user space?  What changes there is seen as late as the file
 * system tells of it (src/source/place.h). */
bool zf_store_lags(const struct zf_store *st);

/* Were the answers of its file system slow so far, as those of a server are?  Then what will be asked is asked at once
 * (zf_ahead_work.slow). */
bool zf_store_is_slow(const struct zf_store *st);

/* Files that will be opened one after the other, in about this order: where answers take long, threads open them ahead.
 * Those that cannot be fail when they are opened. */
struct zf_expect;
/* Begins with these (copied).  begin (NULL = nothing) is called for each that is open: to read what will be read of it
 * first, of a file system that then has it in memory.  NULL: nothing is gained by it. */
struct zf_expect *zf_store_expect(struct zf_store *st, const char *const *path, size_t n,
                                  void (*begin)(struct zf_source *src));
/* The same of those files of `dir` whose names fit. */
struct zf_expect *zf_store_expect_in(struct zf_store *st, const char *dir,
                                     bool (*is)(const char *name),
                                     void (*begin)(struct zf_source *src));
/* Waits until `path`, if it is among them, was opened or could not be.  x: NULL is fine. */
void zf_expect_reach(struct zf_expect *x, const char *path);
/* Waits for all of them. */
void zf_expect_all(struct zf_expect *x);
void zf_expect_free(struct zf_expect *x);
static inline void zf_auto_expect(struct zf_expect **x)
{
    zf_expect_free(*x);
}

/* How what a user names, a path or an address, becomes a store: for those who open several. */
struct zf_opener {
    struct zf_store *(*open)(void *ctx, const char *where, const struct zf_limits *lim,
                             struct zf_err *err);
    void *ctx;
};
/* how: NULL = zf_store_dir. */
struct zf_store *zf_store_by(const struct zf_opener *how, const char *where,
                             const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

#endif

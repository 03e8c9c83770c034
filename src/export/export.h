/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of an export: the journal, the destination directory, copying files and syncing them. */
#ifndef EXPORT_EXPORT_H
#define EXPORT_EXPORT_H

#include <stdatomic.h>
#include <sys/stat.h>

#include <zf/base/auto.h>
#include <zf/base/fd.h>
#include <zf/export.h>
#include <zf/view.h>

/* ---- journal --------------------------------------------------------------------------------- */
/* The state of an unfinished export: the text file ".zerofs-export" in the destination.  Lines are only appended, and the
 * file is removed when the export is complete:
 *
 *     boot ID                  a run begins; ID is the kernel's boot ID
 *     part SOURCE N PATH       PATH is being copied; its first N bytes are synced to disk
 *     done SOURCE PATH         PATH is complete
 *
 * SOURCE is a digest that identifies the source of the bytes.  Bytes past N may be in memory only, so they count only as
 * long as the boot ID is the same.  Thread: any, once opened. */

#define EXPORT_JOURNAL_NAME ".zerofs-export"
#define EXPORT_ID_LEN 32

struct export_journal;

/* Reads the journal in the directory `root`, or creates one.  Borrows root.
 * Errors: ZF_E_IO, also if another export is running in this directory. */
struct export_journal *export_journal_open(int root, struct zf_err *err) ZF_CHECKED;

/* What the journal records about a path from earlier runs. */
struct export_past {
    bool known, done;
    char id[EXPORT_ID_LEN + 1];
    uint64_t certain; /* bytes of the partial file that are reliable; UINT64_MAX: all */
};
struct export_past export_journal_past(const struct export_journal *j, const char *path);

bool export_journal_part(struct export_journal *j, const char *path, const char *id,
                         uint64_t certain, struct zf_err *err) ZF_CHECKED;
bool export_journal_done(struct export_journal *j, const char *path, const char *id,
                         struct zf_err *err) ZF_CHECKED;

/* Removes the file of a complete export. */
void export_journal_finish(struct export_journal *j);

void export_journal_free(struct export_journal *j);
static inline void zf_auto_export_journal(struct export_journal **j)
{
    export_journal_free(*j);
}

/* ---- dest ------------------------------------------------------------------------------------ */
/* The directory an export writes to.  Its contents are not trusted: no symbolic link in it is followed, and without `force`
 * no file in it is replaced. */

/* Opens `path`; creates it and its parents if missing.
 * Errors: ZF_E_USAGE it is inside the checkpoint at `ckpt` (NULL: not on this machine), or is the directory of a
 * single-file checkpoint while `force` could replace its shards. */
bool export_dest_open(const char *path, const char *ckpt, bool force, int *fd_out,
                      struct zf_err *err) ZF_CHECKED;

/* Where a file is written: its directory, its final name, and its name until it is complete. */
struct export_spot {
    int dir; /* owned */
    char name[256], part[256];
};

/* Finds the spot of `to`, a path below `root`; creates missing directories. */
bool export_dest_spot(int root, const char *to, struct export_spot *out,
                      struct zf_err *err) ZF_CHECKED;
static inline void zf_auto_export_spot(struct export_spot *s)
{
    zf_auto_fd(&s->dir);
}

/* Opens a regular file in s->dir, O_NOFOLLOW.  Returns the descriptor, or -1 and errno; ELOOP: not a regular file. */
int export_dest_file(const struct export_spot *s, const char *name, int flags);

/* Renames the complete partial file to its final name.  Errors: ZF_E_IO, also if the name exists and `force` is false. */
bool export_dest_publish(const struct export_spot *s, bool force, struct zf_err *err) ZF_CHECKED;

/* ---- run ------------------------------------------------------------------------------------- */
/* State shared by the copies of one export. */

/* Only the atomics change while the copies run. */
struct export_run {
    struct zf_tree *tree;
    struct zf_export_plan *plan;
    struct export_journal *journal;
    const char *dest; /* the directory, for messages */
    int root;         /* the destination, open */
    bool force, sums;
    uint8_t seed[32]; /* digest of the opened shards and of the options that affect contents */
    atomic_bool stop; /* all copies shall end */
    atomic_uint_least64_t bytes; /* as in struct zf_export_count */
    atomic_uint_least64_t kept;
};

enum export_end {
    EXPORT_OK,
    EXPORT_STOPPED,    /* run->stop was set; the partial file remains, *err is not set */
    EXPORT_UNREADABLE, /* this file of the tree cannot be read; others may be */
    EXPORT_UNWRITABLE, /* writing to the destination failed */
};

/* ---- commit ---------------------------------------------------------------------------------- */
/* Written files are synced in batches; then each is renamed to its final name. */

/* Descriptors that all batches of an export may keep open. */
#define EXPORT_BATCH 64u

/* The files that one thread has written but not synced.  Initialise with {.most}. */
struct export_batch {
    uint32_t most; /* files, 1 to EXPORT_BATCH */
    uint32_t n;
    uint64_t bytes;
    struct export_written {
        uint32_t file; /* index in the plan */
        int fd;        /* of its partial file; owned */
        char id[EXPORT_ID_LEN + 1];
    } file[EXPORT_BATCH];
};

/* Adds file `i` of the plan, which is completely written but perhaps not synced; takes fd.
 * True: the batch is full and must be synced (export_sync) before another file is added. */
bool export_batch_add(struct export_batch *b, const struct export_run *run, uint32_t i, int fd,
                      const char *id);

/* Syncs all files in the batch, renames them to their final names, makes the hard links to them, and empties the batch.
 * A partial file whose sync fails is removed.
 * EXPORT_UNWRITABLE: *err is that of the first failed file; the other files are complete. */
enum export_end export_sync(struct export_run *run, struct export_batch *b,
                            struct zf_err *err) ZF_CHECKED;

/* Syncs the partial file at a spot.  On failure the file is removed: its unwritten pages count as clean from then on. */
bool export_part_sync(const struct export_spot *s, int fd, struct zf_err *err) ZF_CHECKED;

/* Syncs the directories of all files of the plan: a rename survives a crash only if its directory is synced. */
enum export_end export_names_sync(const struct export_run *run, struct zf_err *err) ZF_CHECKED;

/* Makes the hard links to file `i` of the plan, which already has its final name. */
enum export_end export_link(struct export_run *run, uint32_t i, struct zf_err *err) ZF_CHECKED;

/* ---- copy ------------------------------------------------------------------------------------ */
/* Copies file `i` of the plan, which is not a hard link, and adds it to the batch; a full batch is synced.  buf: EXPORT_BUF bytes.
 * buf and batch belong to the calling thread.  Errors may concern another file of the batch. */
#define EXPORT_BUF (1u << 20)
enum export_end export_copy(struct export_run *run, uint32_t i, unsigned char *buf,
                            struct export_batch *batch, struct zf_err *err) ZF_CHECKED;

/* ---- sums ------------------------------------------------------------------------------------ */

#define EXPORT_SUMS_NAME "SHA256SUMS"

/* Writes the digests of all finished files to SHA256SUMS in the directory `root`; lines of an earlier export about other
 * files stay.  Errors: ZF_E_IO, ZF_E_NOMEM. */
bool export_sums_write(int root, const struct zf_export_plan *p, struct zf_err *err) ZF_CHECKED;

/* ---- crc ------------------------------------------------------------------------------------- */

/* A zip archive in the tree has a CRC twice for each member (a mount shows them as 0); an export fills them in. */
struct crc_state {
    uint32_t value;   /* CRC of the bytes added so far */
    uint32_t seen[2]; /* the values at its two positions in an existing file */
};
struct crc_sums {
    zf_sums sum;          /* ranges, and the positions of their CRCs */
    struct crc_state *of; /* [sum.n] */
    uint64_t off;         /* bytes of the file added so far */
    size_t next;          /* index of the first range that ends after `off` */
    size_t lifted[2];     /* number of CRCs read completely, for each of the two positions */
};

/* Finds the CRCs of a file of the tree; most files have none.  Errors: ZF_E_NOMEM. */
bool crc_init(struct crc_sums *c, struct zf_tree *t, uint64_t ino, struct zf_err *err) ZF_CHECKED;
void crc_fini(struct crc_sums *c);

/* Starts again at the beginning of the file. */
void crc_reset(struct crc_sums *c);
/* Adds the next n bytes of the file; the bytes at the positions of CRCs do not matter. */
void crc_add(struct crc_sums *c, const unsigned char *p, size_t n);
/* Records the CRCs in theirs[n], the bytes at `off` of an existing file, and overwrites them with the bytes of ours[n], so
 * that the rest can be compared. */
void crc_lift(struct crc_sums *c, unsigned char *theirs, const unsigned char *ours, size_t n,
              uint64_t off);
/* Do the CRCs recorded by crc_lift equal those of the added bytes? */
bool crc_are_right(const struct crc_sums *c);
/* Writes the CRCs into the file, once all its bytes were added.  False: errno. */
bool crc_write(const struct crc_sums *c, int fd);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of an export: its journal, its directory, copies of files,
 * and how they get to the disk. */
#ifndef EXPORT_EXPORT_H
#define EXPORT_EXPORT_H

#include <stdatomic.h>
#include <sys/stat.h>

#include <zf/base/auto.h>
#include <zf/base/fd.h>
#include <zf/export.h>
#include <zf/view.h>

/* ---- journal --------------------------------------------------------------------------------- */
/* The state of an unfinished export, in one text file at its destination, ".zerofs-export",
 * that only grows and is removed when all is done:
 *
 *     boot ID                  a run begins, on the machine in this state
 *     part SOURCE N PATH       PATH is being copied; its first N bytes are on the disk for certain
 *     done SOURCE PATH         PATH is complete
 *
 * SOURCE is a digest of what the bytes come from.  Bytes past N count as well until the machine is
 * rebooted: they may be in memory only.  Thread: any, once opened. */

#define EXPORT_JOURNAL_NAME ".zerofs-export"
#define EXPORT_ID_LEN 32

struct export_journal;

/* Reads the journal in the directory `root`, or begins one.
 * Errors: ZF_E_IO; another export is at work in this directory. */
struct export_journal *export_journal_open(int root, struct zf_err *err) ZF_CHECKED;

/* The rest of earlier runs for a path. */
struct export_past {
    bool known, done;
    char id[EXPORT_ID_LEN + 1];
    uint64_t certain; /* bytes of a part that can be relied on; UINT64_MAX: all it has */
};
struct export_past export_journal_past(const struct export_journal *j, const char *path);

bool export_journal_part(struct export_journal *j, const char *path, const char *id,
                         uint64_t certain, struct zf_err *err) ZF_CHECKED;
bool export_journal_done(struct export_journal *j, const char *path, const char *id,
                         struct zf_err *err) ZF_CHECKED;

/* Nothing is left to go on with: removes the file. */
void export_journal_finish(struct export_journal *j);

void export_journal_free(struct export_journal *j);
static inline void zf_auto_export_journal(struct export_journal **j)
{
    export_journal_free(*j);
}

/* ---- dest ------------------------------------------------------------------------------------ */
/* The directory an export writes to.  It may hold anything: no symbolic link in it is followed, and
 * nothing in it is replaced unasked. */

/* Opens `path`; makes it, and the directories above it, where they are missing.
 * Errors: ZF_E_USAGE it lies in the checkpoint at `ckpt` (NULL: one that is not on this machine),
 * or beside one that is a single file while `force` could replace its shards. */
bool export_dest_open(const char *path, const char *ckpt, bool force, int *fd_out,
                      struct zf_err *err) ZF_CHECKED;

/* A file's place: its directory, its name and the name it has until it is complete. */
struct export_spot {
    int dir; /* owned */
    char name[256], part[256];
};

/* Goes from `root` to the place of `to` (a path of the tree), making directories on the way. */
bool export_dest_spot(int root, const char *to, struct export_spot *out,
                      struct zf_err *err) ZF_CHECKED;
static inline void zf_auto_export_spot(struct export_spot *s)
{
    zf_auto_fd(&s->dir);
}

/* Opens a plain file in s->dir that has one name only; anything else there: < 0 and errno. */
int export_dest_file(const struct export_spot *s, const char *name, int flags);

/* Gives the complete part its name.  Without `force` nothing is replaced: ZF_E_IO. */
bool export_dest_publish(const struct export_spot *s, bool force, struct zf_err *err) ZF_CHECKED;

/* ---- run ------------------------------------------------------------------------------------- */
/* State shared by the copies of one export. */

/* Only the atomics change while they run. */
struct export_run {
    struct zf_tree *tree;
    struct zf_export_plan *plan;
    struct export_journal *journal;
    const char *dest; /* the directory, for messages */
    int root;         /* the destination, open */
    bool force, sums;
    uint8_t seed[32]; /* digest of the files that were opened and of the options that change what is
                         shown */
    atomic_bool stop; /* somebody asks all copies to end */
    atomic_uint_least64_t bytes; /* that need no more copying */
    atomic_uint_least64_t kept;  /* of these: were there already */
};

enum export_end {
    EXPORT_OK,
    EXPORT_STOPPED,    /* run->stop was set; the part is kept and *err unfilled */
    EXPORT_UNREADABLE, /* this file cannot be had; others may */
    EXPORT_UNWRITABLE, /* the destination does not take it */
};

/* ---- settle ---------------------------------------------------------------------------------- */
/* Files that are written go to the disk together, then each gets its name. */

/* Descriptors that all batches of an export may keep open. */
#define EXPORT_BATCH 64u

/* Of one thread.  Begin with {.most}. */
struct export_batch {
    uint32_t most; /* files, 1 to EXPORT_BATCH */
    uint32_t n;
    uint64_t bytes;
    struct export_written {
        uint32_t file; /* index in the plan */
        int fd;        /* of its part; owned */
        char id[EXPORT_ID_LEN + 1];
    } file[EXPORT_BATCH];
};

/* Adds file `i` of the plan, whose part is written to its last byte but perhaps in memory only; takes fd.
 * True: the batch is full, to be settled before anything else is added. */
bool export_batch_add(struct export_batch *b, const struct export_run *run, uint32_t i, int fd,
                      const char *id);

/* Puts all that is in the batch on the disk, gives the files their names, makes the links that
 * follow them, and empties it.  A part that the disk did not take is removed.
 * EXPORT_UNWRITABLE: *err is of the first that failed; the others have their names. */
enum export_end export_sync(struct export_run *run, struct export_batch *b,
                            struct zf_err *err) ZF_CHECKED;

/* Puts what is written of the part at a spot on the disk.  False: the disk did not take it, and it
 * is removed. */
bool export_part_sync(const struct export_spot *s, int fd, struct zf_err *err) ZF_CHECKED;

/* Puts the names of all files of the plan on the disk, and the directories they lie in: a rename is
 * only as certain as its directory. */
enum export_end export_names_sync(const struct export_run *run, struct zf_err *err) ZF_CHECKED;

/* Makes the further links of file `i` of the plan, which is there under its name. */
enum export_end export_link(struct export_run *run, uint32_t i, struct zf_err *err) ZF_CHECKED;

/* ---- copy ------------------------------------------------------------------------------------ */
/* One file of the tree becomes one file of the destination. */

/* Copies file `i` of the plan, which is no link of another, and puts it into the batch; when that is
 * full, all of it is settled.  buf: EXPORT_BUF bytes; both are the caller's own.  Errors may be about
 * another file of the batch. */
#define EXPORT_BUF (1u << 20)
enum export_end export_copy(struct export_run *run, uint32_t i, unsigned char *buf,
                            struct export_batch *batch, struct zf_err *err) ZF_CHECKED;

/* ---- sums ------------------------------------------------------------------------------------ */

#define EXPORT_SUMS_NAME "SHA256SUMS"

/* Writes the digests of all files that are done into the directory `root`; lines about other files,
 * of an earlier export, stay.  Errors: ZF_E_IO, ZF_E_NOMEM. */
bool export_sums_write(int root, const struct zf_export_plan *p, struct zf_err *err) ZF_CHECKED;

/* ---- crc ------------------------------------------------------------------------------------- */

struct crc_state {
    uint32_t value;
    uint32_t seen[2]; /* at its two places in a file that is there already */
};
struct crc_sums {
    zf_sums sum;
    struct crc_state *of; /* [sum.n] */
    uint64_t off;         /* bytes of the file that were added */
    size_t next;          /* the sum that the next one belongs to, or that comes after it */
    size_t lifted[2];     /* sums of which the places are seen */
};

/* Those of a file; most have none.  Errors: ZF_E_NOMEM. */
bool crc_init(struct crc_sums *c, struct zf_tree *t, uint64_t ino, struct zf_err *err) ZF_CHECKED;
void crc_fini(struct crc_sums *c);

/* Begins anew. */
void crc_reset(struct crc_sums *c);
/* The next n bytes of the file; at the places of sums they may be anything. */
void crc_add(struct crc_sums *c, const unsigned char *p, size_t n);
/* Of theirs[n], the bytes at `off` of a file that is there already, notes what is at the places of sums, and puts what
 * ours has there. */
void crc_lift(struct crc_sums *c, unsigned char *theirs, const unsigned char *ours, size_t n,
              uint64_t off);
/* Are those that were noted the sums of the bytes that were added? */
bool crc_are_right(const struct crc_sums *c);
/* Puts the sums into the file, all of whose bytes were added.  False: errno. */
bool crc_write(const struct crc_sums *c, int fd);

#endif

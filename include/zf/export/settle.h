/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are written go to the disk together, then each gets its name. */
#ifndef ZF_EXPORT_SETTLE_H
#define ZF_EXPORT_SETTLE_H

#include <zf/export/dest.h>
#include <zf/export/run.h>

/* Descriptors that all batches of an export may keep open. */
#define ZF_EXPORT_BATCH 64u

/* Of one thread.  Begin with {.most}. */
struct zf_export_batch {
    uint32_t most; /* files, 1 to ZF_EXPORT_BATCH */
    uint32_t n;
    uint64_t bytes;
    struct zf_export_written {
        uint32_t file; /* index in the plan */
        int fd;        /* of its part; owned */
        char id[ZF_EXPORT_ID_LEN + 1];
    } file[ZF_EXPORT_BATCH];
};

/* Adds file `i` of the plan, whose part is written to its last byte but perhaps in memory only; takes fd.
 * True: the batch is full, to be settled before anything else is added. */
bool zf_export_batch_add(struct zf_export_batch *b, const struct zf_export_run *run, uint32_t i,
                         int fd, const char *id);

/* Puts all that is in the batch on the disk, gives the files their names, makes the links that
 * follow them, and empties it.  A part that the disk did not take is removed.
 * ZF_EXPORT_UNWRITABLE: *err is of the first that failed; the others have their names. */
enum zf_export_end zf_export_sync(struct zf_export_run *run, struct zf_export_batch *b,
                                  struct zf_err *err) ZF_CHECKED;

/* Puts what is written of the part at a spot on the disk.  False: the disk did not take it, and it
 * is removed. */
bool zf_export_part_sync(const struct zf_export_spot *s, int fd, struct zf_err *err) ZF_CHECKED;

/* Puts the names of all files of the plan on the disk, and the directories they lie in: a rename is
 * only as certain as its directory. */
enum zf_export_end zf_export_names_sync(const struct zf_export_run *run,
                                        struct zf_err *err) ZF_CHECKED;

/* Makes the files of the plan that follow `i` hard links of it, which has its name. */
enum zf_export_end zf_export_link(struct zf_export_run *run, uint32_t i,
                                  struct zf_err *err) ZF_CHECKED;

#endif

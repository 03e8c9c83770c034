/* SPDX-License-Identifier: Apache-2.0 */
/* The state of an unfinished export, in one text file at its destination, ".zerofs-export",
 * that only grows and is removed when all is done:
 *
 *     boot ID                  a run begins, on the machine in this state
 *     part SOURCE N PATH       PATH is being copied; its first N bytes are on the disk for certain
 *     done SOURCE PATH         PATH is complete
 *
 * SOURCE is a digest of what the bytes come from.  Bytes past N count as well until the machine is
 * rebooted: they may be in memory only.  Thread: any, once opened. */
#ifndef ZF_EXPORT_JOURNAL_H
#define ZF_EXPORT_JOURNAL_H

#include <zf/base/auto.h>
#include <zf/base/err.h>

#define ZF_EXPORT_JOURNAL_NAME ".zerofs-export"
#define ZF_EXPORT_ID_LEN 32

struct zf_export_journal;

/* Reads the journal in the directory `root`, or begins one.
 * Errors: ZF_E_IO; another export is at work in this directory. */
struct zf_export_journal *zf_export_journal_open(int root, struct zf_err *err) ZF_CHECKED;

/* The rest of earlier runs for a path. */
struct zf_export_past {
    bool known, done;
    char id[ZF_EXPORT_ID_LEN + 1];
    uint64_t certain; /* bytes of a part that can be relied on; UINT64_MAX: all it has */
};
struct zf_export_past zf_export_journal_past(const struct zf_export_journal *j, const char *path);

bool zf_export_journal_part(struct zf_export_journal *j, const char *path, const char *id,
                            uint64_t certain, struct zf_err *err) ZF_CHECKED;
bool zf_export_journal_done(struct zf_export_journal *j, const char *path, const char *id,
                            struct zf_err *err) ZF_CHECKED;

/* Nothing is left to go on with: removes the file. */
void zf_export_journal_finish(struct zf_export_journal *j);

void zf_export_journal_free(struct zf_export_journal *j);
static inline void zf_auto_export_journal(struct zf_export_journal **j)
{
    zf_export_journal_free(*j);
}

#endif

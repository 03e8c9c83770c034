/* SPDX-License-Identifier: Apache-2.0 */
/* Failures that a serving process reports: on stderr in the foreground, to syslog in the background, and in a ring
 * buffer that /.zerofs/log shows.  Thread: any. */
#ifndef ZF_OVERLAY_LOG_H
#define ZF_OVERLAY_LOG_H

#include <stdio.h>
#include <time.h>

#include <zf/base/auto.h>
#include <zf/base/err.h>

struct zf_log;

/* Makes an empty log that prints to `to`. */
struct zf_log *zf_log_new(FILE *to, struct zf_err *err) ZF_CHECKED;
void zf_log_free(struct zf_log *log);
static inline void zf_auto_log(struct zf_log **log)
{
    zf_log_free(*log);
}

/* From now on, prints to syslog. */
void zf_log_detach(struct zf_log *log);

/* Logs a failure.  Repetitions with the same file and reason, at any byte, are counted in the ring and printed once a
 * minute: a broken shard with 64 readers must not fill a disk.  The same holds for the same error of a system call in
 * any file, because unavailable storage fails in all files.  Of more than 256 different failures within a minute, only
 * the first ones are printed. */
void zf_log_say(struct zf_log *log, const struct zf_err *err);

/* Adds an event that is no failure: kept in the ring, printed nowhere. */
void zf_log_note(struct zf_log *log, const struct zf_err *what);

/* The ring as text, one line per failure, oldest first: "<UTC time> <sentence> (N times)".  Returns malloc'ed text. */
char *zf_log_text(struct zf_log *log, size_t *n_out);

/* One failure as the ring shows it.  Returns malloc'ed text. */
char *zf_log_line(time_t when, const struct zf_err *err, size_t *n_out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Failures that a serving process reports: on stderr in the foreground, to syslog behind it, and in a
 * ring that /.zerofs/log shows.  Thread: any. */
#ifndef ZF_OVERLAY_LOG_H
#define ZF_OVERLAY_LOG_H

#include <stdio.h>
#include <time.h>

#include <zf/base/auto.h>
#include <zf/base/err.h>

struct zf_log;

/* Gives an empty log that prints to `to`. */
struct zf_log *zf_log_new(FILE *to, struct zf_err *err) ZF_CHECKED;
void zf_log_free(struct zf_log *log);
static inline void zf_auto_log(struct zf_log **log)
{
    zf_log_free(*log);
}

/* From now on to syslog. */
void zf_log_detach(struct zf_log *log);

/* One failure.  The same file and reason again, whichever byte it hits, is counted in the ring, and
 * printed once a minute: a broken shard under 64 readers must not fill a disk.  So is the same error of
 * a system call in whichever file, because storage that went away fails in all of them; and of more
 * than 256 different ones within a minute the first are printed. */
void zf_log_say(struct zf_log *log, const struct zf_err *err);

/* Adds an event that is no failure: kept in the ring, printed nowhere. */
void zf_log_note(struct zf_log *log, const struct zf_err *what);

/* The ring as text, a line each, oldest first: "<UTC time> <sentence> (N times)".  Gives
 * malloc'ed text. */
char *zf_log_text(struct zf_log *log, size_t *n_out);

/* One failure as the ring shows it.  Gives malloc'ed text. */
char *zf_log_line(time_t when, const struct zf_err *err, size_t *n_out);

#endif

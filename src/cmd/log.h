/* SPDX-License-Identifier: Apache-2.0 */
/* What a serving process has to say: on stderr in the foreground, to syslog behind it, and in a
 * ring that /.zerofs/log shows.  Thread: any. */
#ifndef ZF_CMD_LOG_H
#define ZF_CMD_LOG_H

#include <time.h>

#include <zf/base/auto.h>
#include <zf/base/err.h>

struct cmd_log;

/* Gives an empty log that prints to stderr. */
struct cmd_log *log_new(struct zf_err *err) ZF_CHECKED;
void log_free(struct cmd_log *log);
static inline void zf_auto_log(struct cmd_log **log)
{
    log_free(*log);
}

/* From now on to syslog. */
void log_detach(struct cmd_log *log);

/* One failure.  The same file and reason again within the ring is counted, not repeated, whichever
 * byte it hits: a broken shard under 64 readers must not fill a disk. */
void log_say(struct cmd_log *log, const struct zf_err *err);

/* The ring as text, a line each, oldest first: "<UTC time> <sentence> (N times)".  Gives
 * malloc'ed text. */
char *log_text(struct cmd_log *log, size_t *n_out);

/* One failure as the ring shows it.  Gives malloc'ed text. */
char *log_line(time_t when, const struct zf_err *err, size_t *n_out);

#endif

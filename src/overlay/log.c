/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/overlay/log.h>

#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#include <zf/base/clock.h>
#include <zf/base/hash.h>
#include <zf/base/thread.h>

#define N_LINES 256
#define LINE_MAX_LEN 800
#define REPEAT_NS INT64_C(60000000000)

struct log_line {
    time_t when;
    uint64_t times;
    struct zf_err err;
};

/* A failure that was printed, so that repetitions are suppressed. */
struct log_printed {
    uint64_t what;  /* its hash; 0: unused */
    int64_t at;     /* zf_clock_ns() */
    uint64_t since; /* repetitions that were not printed */
};

struct zf_log {
    pthread_mutex_t lock;
    FILE *to;       /* NULL: syslog */
    size_t next, n; /* ring buffer: index of the next line to write, and number of lines */
    struct log_line line[N_LINES];
    struct log_printed printed[N_LINES];
};

struct zf_log *zf_log_new(FILE *to, struct zf_err *err)
{
    struct zf_log *log = calloc(1, sizeof *log);

    if (!log)
        return zf_null(zf_fail_sys(err, "make a log"));
    (void)pthread_mutex_init(&log->lock, NULL);
    log->to = to;
    return log;
}

void zf_log_free(struct zf_log *log)
{
    if (log) {
        (void)pthread_mutex_destroy(&log->lock);
        free(log);
    }
}

void zf_log_detach(struct zf_log *log)
{
    openlog("zerofs", LOG_PID, LOG_DAEMON);
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&log->lock);
    log->to = NULL;
}

/* Adds a line to the ring buffer.  Pre: the lock is held. */
static void log_remember(struct zf_log *log, const struct zf_err *err)
{
    for (size_t i = 0; i < log->n; i++) {
        struct log_line *l = &log->line[i];

        if (strcmp(l->err.msg, err->msg) == 0 && strcmp(l->err.path, err->path) == 0) {
            l->times++;
            return;
        }
    }
    log->line[log->next] = (struct log_line){.when = time(NULL), .times = 1, .err = *err};
    log->next = (log->next + 1) % N_LINES;
    log->n += log->n < N_LINES;
}

/* A hash of a failure.  The file does not count for storage errors, which affect all files at once. */
static uint64_t log_hash(const struct zf_err *err)
{
    const uint64_t h = zf_hash_str(0, err->msg);

    return (err->code == ZF_E_IO && err->sys ? h : zf_hash_str(h, err->path)) | 1;
}

/* The entry of a failure that must be printed now, or NULL.  A new failure replaces the oldest entry.
 * Pre: the lock is held. */
static struct log_printed *log_due(struct zf_log *log, const struct zf_err *err, int64_t now)
{
    const uint64_t what = log_hash(err);
    struct log_printed *p = &log->printed[0];

    for (size_t i = 0; i < N_LINES && p->what != what; i++) {
        struct log_printed *q = &log->printed[i];

        if (q->what == what || (p->what && (!q->what || q->at < p->at)))
            p = q;
    }
    if (p->what && now - p->at < REPEAT_NS) {
        p->since += p->what == what;
        return NULL;
    }
    if (p->what != what)
        *p = (struct log_printed){.what = what};
    p->at = now;
    return p;
}

void zf_log_say(struct zf_log *log, const struct zf_err *err)
{
    char text[LINE_MAX_LEN], more[64] = "";

    (void)pthread_mutex_lock(&log->lock);
    log_remember(log, err);
    FILE *to = log->to;
    struct log_printed *p = log_due(log, err, zf_clock_ns());
    if (p && p->since > 0) {
        (void)snprintf(more, sizeof more, " (%llu more times since the last line)",
                       (unsigned long long)p->since);
        p->since = 0;
    }
    (void)pthread_mutex_unlock(&log->lock);
    if (!p)
        return;
    (void)zf_err_text(err, text, sizeof text);
    if (to)
        (void)fprintf(to, "zerofs: %s%s\n", text, more);
    else
        syslog(LOG_WARNING, "%s%s", text, more);
}

static void log_print_line(FILE *f, const struct log_line *l)
{
    char when[32], text[LINE_MAX_LEN];
    struct tm tm;

    (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&l->when, &tm));
    (void)fprintf(f, "%s %s", when, zf_err_text(&l->err, text, sizeof text));
    if (l->times > 1)
        (void)fprintf(f, " (%llu times)", (unsigned long long)l->times);
    (void)fputc('\n', f);
}

void zf_log_note(struct zf_log *log, const struct zf_err *what)
{
    zf_auto(lock) pthread_mutex_t *lock = zf_lock(&log->lock);
    log_remember(log, what);
}

char *zf_log_line(time_t when, const struct zf_err *err, size_t *n_out)
{
    struct log_line l = {.when = when, .times = 1, .err = *err};
    char *text = NULL;
    FILE *f = open_memstream(&text, n_out);

    if (!f)
        return NULL;
    log_print_line(f, &l);
    return fclose(f) == 0 ? text : (free(text), NULL);
}

char *zf_log_text(struct zf_log *log, size_t *n_out)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, n_out);

    if (!f)
        return NULL;
    (void)pthread_mutex_lock(&log->lock);
    for (size_t i = 0; i < log->n; i++)
        log_print_line(f, &log->line[(log->next + N_LINES - log->n + i) % N_LINES]);
    (void)pthread_mutex_unlock(&log->lock);
    return fclose(f) == 0 ? text : (free(text), NULL);
}

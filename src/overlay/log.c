/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/overlay/log.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#define N_LINES 256
#define LINE_MAX_LEN 800

struct log_line {
    time_t when;
    uint64_t times;
    struct zf_err err;
};

struct zf_log {
    pthread_mutex_t lock;
    FILE *to;       /* NULL: to syslog */
    size_t next, n; /* ring: next to be written */
    struct log_line line[N_LINES];
};

struct zf_log *zf_log_new(FILE *to, struct zf_err *err)
{
    struct zf_log *log = calloc(1, sizeof *log);

    if (!log) {
        (void)zf_fail_sys(err, "make a log");
        return NULL;
    }
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
    (void)pthread_mutex_lock(&log->lock);
    log->to = NULL;
    (void)pthread_mutex_unlock(&log->lock);
}

/* True when the failure is new.  Under the lock. */
static bool log_remember(struct zf_log *log, const struct zf_err *err)
{
    for (size_t i = 0; i < log->n; i++) {
        struct log_line *l = &log->line[i];

        if (strcmp(l->err.msg, err->msg) == 0 && strcmp(l->err.path, err->path) == 0) {
            l->times++;
            return false;
        }
    }
    log->line[log->next] = (struct log_line){.when = time(NULL), .times = 1, .err = *err};
    log->next = (log->next + 1) % N_LINES;
    log->n += log->n < N_LINES;
    return true;
}

void zf_log_say(struct zf_log *log, const struct zf_err *err)
{
    char text[LINE_MAX_LEN];

    (void)pthread_mutex_lock(&log->lock);
    bool fresh = log_remember(log, err);
    FILE *to = log->to;
    (void)pthread_mutex_unlock(&log->lock);
    if (!fresh) {
        return;
    }
    (void)zf_err_text(err, text, sizeof text);
    if (to) {
        (void)fprintf(to, "zerofs: %s\n", text);
    } else {
        syslog(LOG_WARNING, "%s", text);
    }
}

static void log_print_line(FILE *f, const struct log_line *l)
{
    char when[32], text[LINE_MAX_LEN];
    struct tm tm;

    (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&l->when, &tm));
    (void)fprintf(f, "%s %s", when, zf_err_text(&l->err, text, sizeof text));
    if (l->times > 1) {
        (void)fprintf(f, " (%llu times)", (unsigned long long)l->times);
    }
    (void)fputc('\n', f);
}

void zf_log_note(struct zf_log *log, const struct zf_err *what)
{
    (void)pthread_mutex_lock(&log->lock);
    (void)log_remember(log, what);
    (void)pthread_mutex_unlock(&log->lock);
}

char *zf_log_line(time_t when, const struct zf_err *err, size_t *n_out)
{
    struct log_line l = {.when = when, .times = 1, .err = *err};
    char *text = NULL;
    FILE *f = open_memstream(&text, n_out);

    if (!f) {
        return NULL;
    }
    log_print_line(f, &l);
    return fclose(f) == 0 ? text : (free(text), NULL);
}

char *zf_log_text(struct zf_log *log, size_t *n_out)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, n_out);

    if (!f) {
        return NULL;
    }
    (void)pthread_mutex_lock(&log->lock);
    for (size_t i = 0; i < log->n; i++) {
        log_print_line(f, &log->line[(log->next + N_LINES - log->n + i) % N_LINES]);
    }
    (void)pthread_mutex_unlock(&log->lock);
    return fclose(f) == 0 ? text : (free(text), NULL);
}

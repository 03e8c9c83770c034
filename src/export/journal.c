/* SPDX-License-Identifier: Apache-2.0 */
/* The whole file is read once, when it is opened; after that lines are only appended, each with one write, so threads need
 * no lock and a crash truncates at most the last line.  The last line about a path wins. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zf/base/fd.h>
#include <zf/base/vec.h>

#include "export.h"

struct journal_line {
    const char *path; /* in the journal's text */
    uint32_t at;      /* later lines win */
    struct export_past past;
};

struct export_journal {
    int root, fd; /* root: borrowed */
    char *text;
    zf_vec(struct journal_line) line; /* sorted by path, one per path */
};

static void journal_boot_id(char out[64])
{
    zf_auto(fd) int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, 63) : 0;

    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

static int journal_by_path(const void *a, const void *b)
{
    const struct journal_line *x = a, *y = b;
    int c = strcmp(x->path, y->path);

    return c ? c : (x->at > y->at) - (x->at < y->at);
}

/* Parses "part ID N PATH" or "done ID PATH".  False: not such a line, perhaps truncated by a crash; it is ignored. */
static bool journal_parse(char *text, bool same_boot, struct journal_line *out)
{
    uint64_t certain = 0;
    int path = 0;

    *out = (struct journal_line){0};
    if (sscanf(text, "part %32[0-9a-f] %" SCNu64 " %n", out->past.id, &certain, &path) != 2 ||
        !path) {
        path = 0;
        if (sscanf(text, "done %32[0-9a-f] %n", out->past.id, &path) != 1 || !path)
            return false;
        out->past.done = true;
    }
    out->past.known = true;
    out->past.certain = same_boot ? UINT64_MAX : certain;
    out->path = text + path;
    return *out->path && strlen(out->past.id) == EXPORT_ID_LEN;
}

static bool journal_keep_line(struct export_journal *j, struct journal_line line)
{
    struct zf_err err;

    if (!zf_vec_room(&j->line, 1, &err))
        return false;
    line.at = (uint32_t)j->line.n;
    j->line.at[j->line.n++] = line;
    return true;
}

static bool journal_parse_all(struct export_journal *j, const char *boot)
{
    bool same_boot = false;
    uint32_t n = 0;

    for (char *p = j->text, *end; (end = strchr(p, '\n')); p = end + 1) {
        struct journal_line line;

        *end = '\0';
        if (strncmp(p, "boot ", 5) == 0)
            same_boot = *boot && strcmp(p + 5, boot) == 0;
        else if (journal_parse(p, same_boot, &line) && !journal_keep_line(j, line))
            return false;
    }
    if (j->line.n)
        qsort(j->line.at, j->line.n, sizeof *j->line.at, journal_by_path);
    for (size_t i = 0; i < j->line.n; i++) {
        n -= n > 0 && strcmp(j->line.at[n - 1].path, j->line.at[i].path) == 0;
        j->line.at[n++] = j->line.at[i];
    }
    j->line.n = n;
    return true;
}

static bool journal_slurp(struct export_journal *j, struct zf_err *err)
{
    struct stat st;

    if (fstat(j->fd, &st) != 0 || !S_ISREG(st.st_mode))
        return zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "this is not a regular file");
    j->text = calloc(1, (size_t)st.st_size + 1);
    if (!j->text)
        return zf_fail_sys(err, "read the journal of an earlier export");
    return zf_fd_pread(j->fd, j->text, (size_t)st.st_size, 0) >= 0 ||
           zf_fail_sys(err, "read the journal of an earlier export");
}

/* Appends a line with one write, so that lines of several threads do not mix.  Frees text; n < 0: out of memory. */
static bool journal_append(struct export_journal *j, char *text, int n, struct zf_err *err)
{
    zf_auto(mem) char *line = n < 0 ? NULL : text;

    if (!line)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    if (write(j->fd, line, (size_t)n) != n) {
        (void)zf_fail_sys(err, "write the journal");
        return zf_err_in(err, EXPORT_JOURNAL_NAME);
    }
    return true;
}

static bool journal_begin(struct export_journal *j, struct zf_err *err)
{
    char boot[64], *text = NULL;

    journal_boot_id(boot);
    if (flock(j->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return zf_fail(err, ZF_E_IO, ZF_OFF_NONE, "another export is running in this directory");
    if (!journal_slurp(j, err))
        return false;
    if (!journal_parse_all(j, boot))
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    /* The leading newline ends a line that a crash truncated. */
    int n = asprintf(&text, "\nboot %s\n", boot);
    return journal_append(j, text, n, err);
}

struct export_journal *export_journal_open(int root, struct zf_err *err)
{
    struct export_journal *j = calloc(1, sizeof *j);

    if (!j)
        return zf_null(zf_fail_sys(err, "begin the export"));
    j->root = root;
    j->fd = openat(root, EXPORT_JOURNAL_NAME,
                   O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    bool ok = j->fd >= 0 ? journal_begin(j, err) : zf_fail_sys(err, "write to the destination");
    if (!ok) {
        export_journal_free(j);
        return NULL;
    }
    return j;
}

static int journal_cmp_path(const void *path, const void *line)
{
    return strcmp(path, ((const struct journal_line *)line)->path);
}

struct export_past export_journal_past(const struct export_journal *j, const char *path)
{
    const struct journal_line *found =
        j->line.n ? bsearch(path, j->line.at, j->line.n, sizeof *j->line.at, journal_cmp_path)
                  : NULL;

    return found ? found->past : (struct export_past){0};
}

bool export_journal_part(struct export_journal *j, const char *path, const char *id,
                         uint64_t certain, struct zf_err *err)
{
    char *text = NULL;
    int n = asprintf(&text, "part %s %" PRIu64 " %s\n", id, certain, path);

    return journal_append(j, text, n, err);
}

bool export_journal_done(struct export_journal *j, const char *path, const char *id,
                         struct zf_err *err)
{
    char *text = NULL;
    int n = asprintf(&text, "done %s %s\n", id, path);

    return journal_append(j, text, n, err);
}

void export_journal_finish(struct export_journal *j)
{
    (void)unlinkat(j->root, EXPORT_JOURNAL_NAME, 0);
}

void export_journal_free(struct export_journal *j)
{
    if (j) {
        zf_auto_fd(&j->fd);
        free(j->text);
        zf_vec_fini(&j->line);
        free(j);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* SHA256SUMS, as sha256sum(1) writes and checks it. */

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <zf/base/out.h>

#include "export.h"

/* Adds a line of sha256sum's format: a backslash in the name is doubled, and the line then begins with a backslash. */
static void sums_line_of(const struct zf_export_file *f, struct zf_out *out)
{
    bool escape = strchr(f->to, '\\');

    zf_out_str(out, escape ? "\\" : "");
    zf_out_hex(out, f->sha256, sizeof f->sha256);
    zf_out_str(out, "  ");
    for (const char *p = f->to; *p; p++)
        zf_out_fill(out, *p, *p == '\\' ? 2 : 1);
    zf_out_str(out, "\n");
}

/* The part of a line after its digest, "  NAME", which is unique. */
static const char *sums_named(const char *line)
{
    const char *p = strchr(line, ' ');

    return p ? p : line;
}

static int sums_by_name(const void *a, const void *b)
{
    return strcmp(sums_named(*(char *const *)a), sums_named(*(char *const *)b));
}

/* The text of an earlier SHA256SUMS, malloc'ed; "" if there is none or it cannot be read. */
static char *sums_read_old(const struct export_spot *s)
{
    struct stat st;
    zf_auto(fd) int fd = export_dest_file(s, s->name, O_RDONLY);

    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size > 1 << 30)
        return calloc(1, 1);
    char *text = calloc(1, (size_t)st.st_size + 1);
    if (text && zf_fd_pread(fd, text, (size_t)st.st_size, 0) != st.st_size)
        text[0] = '\0';
    return text;
}

/* Appends the old lines whose names are not among the new ones. */
static bool sums_merge(char *old, struct zf_out *out)
{
    zf_auto(mem) char *copy = strndup(out->p ? out->p : "", out->n);
    size_t n = 0;

    if (!copy)
        return false;
    for (const char *p = copy; *p; p++)
        n += *p == '\n';
    zf_auto(mem) char **line = calloc(n + 1, sizeof *line);
    if (!line)
        return false;
    n = 0;
    for (char *save, *p = strtok_r(copy, "\n", &save); p; p = strtok_r(NULL, "\n", &save))
        line[n++] = p;
    qsort(line, n, sizeof *line, sums_by_name);
    for (char *save, *p = strtok_r(old, "\n", &save); p; p = strtok_r(NULL, "\n", &save))
        if (strlen(p) > 66 && !bsearch(&p, line, n, sizeof *line, sums_by_name))
            zf_out_fmt(out, "%s\n", p);
    return true;
}

static bool sums_write_text(const struct export_spot *s, const struct zf_out *out,
                            struct zf_err *err)
{
    (void)unlinkat(s->dir, s->part, 0);
    zf_auto(fd) int fd = export_dest_file(s, s->part, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        return zf_fail_sys(err, "create the file");
    if (!zf_fd_write(fd, out->p, out->n) || fsync(fd) != 0)
        return zf_fail_sys(err, "write");
    return export_dest_publish(s, true, err);
}

bool export_sums_write(int root, const struct zf_export_plan *p, struct zf_err *err)
{
    zf_auto(export_spot) struct export_spot spot = {.dir = -1};
    zf_auto(out) struct zf_out out = {0};

    if (!export_dest_spot(root, EXPORT_SUMS_NAME, &spot, err))
        return zf_err_in(err, EXPORT_SUMS_NAME);
    for (uint32_t i = 0; i < p->n; i++)
        if (p->file[i].done)
            sums_line_of(&p->file[i], &out);
    zf_auto(mem) char *old = sums_read_old(&spot);
    bool ok = zf_out_ok(&out, err) &&
              ((old && sums_merge(old, &out)) || zf_fail_sys(err, "write the digests")) &&
              zf_out_ok(&out, err) && sums_write_text(&spot, &out, err);
    return ok || zf_err_in(err, EXPORT_SUMS_NAME);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts are looked up in /proc/self/mountinfo (proc(5)), so that none is entered or asked, dead or
 * stalled as it may be; only one that the user pointed at is asked which save it shows. */
#include "where.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <zf/base/auto.h>

/* One line of mountinfo; all parts point into `line`. */
struct where_mount {
    char *line, *point, *type, *source;
};

static void zf_auto_where_mount(struct where_mount *m)
{
    free(m->line);
}

/* Decodes \040 and its like; in place. */
static void where_unescape(char *s)
{
    char *to = s;

    for (; *s; s++) {
        unsigned byte;

        if (s[0] == '\\' && sscanf(s + 1, "%3o", &byte) == 1 && isdigit((unsigned char)s[1]) &&
            isdigit((unsigned char)s[2]) && isdigit((unsigned char)s[3])) {
            *to++ = (char)byte;
            s += 3;
        } else {
            *to++ = *s;
        }
    }
    *to = '\0';
}

/* "36 35 98:0 /root /mnt/x rw,noatime master:1 - fuse.zerofs /data/run7 ro,…": takes line. */
static bool where_parse(char *line, struct where_mount *out)
{
    char *rest = strstr(line, " - "), *save = NULL;

    *out = (struct where_mount){.line = line};
    if (!rest) {
        return false;
    }
    *rest = '\0';
    out->type = strtok_r(rest + 3, " \n", &save);
    out->source = out->type ? strtok_r(NULL, " \n", &save) : NULL;
    char *word = strtok_r(line, " ", &save);
    for (int i = 0; word && i < 4; i++) {
        word = strtok_r(NULL, " ", &save);
    }
    out->point = word;
    if (!out->source || !out->point) {
        return false;
    }
    where_unescape(out->point);
    where_unescape(out->source);
    return true;
}

/* Is `path` at or below `dir`? */
static bool where_within(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/' || dir[n - 1] == '/');
}

/* below: the first zerofs mounted below real; else the mount that real is on, of whatever type. */
static bool where_find(const char *real, bool below, struct where_mount *out)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t cap = 0;

    *out = (struct where_mount){.line = NULL};
    while (f && getline(&line, &cap, f) >= 0) {
        zf_auto(where_mount) struct where_mount m = {.line = NULL};

        if (!where_parse(strdup(line), &m)) {
            continue;
        }
        /* The last of several mounts on one point is the one that is seen. */
        bool take = below ? !out->line && strcmp(m.type, "fuse.zerofs") == 0 &&
                                strcmp(m.point, real) != 0 && where_within(m.point, real)
                          : where_within(real, m.point) &&
                                (!out->line || strlen(m.point) >= strlen(out->point));
        if (take) {
            struct where_mount old = *out;
            *out = m;
            m = old;
        }
    }
    free(line);
    if (f) {
        (void)fclose(f);
    }
    return out->line != NULL;
}

/* "/data/run7/global_step1000": the source and, where the tree says it, the save. */
static void where_shows(const struct where_mount *m, const char *asked, char *out, size_t n)
{
    char tag[200];
    ssize_t len = asked ? getxattr(asked, "user.zerofs.tag", tag, sizeof tag) : -1;

    (void)snprintf(out, n, "%.100s%s%.*s", m->source, len > 0 ? "/" : "", len > 0 ? (int)len : 0,
                   tag);
}

static bool where_is_zerofs(const struct where_mount *m, const char *path)
{
    return strcmp(m->type, "fuse.zerofs") == 0 ||
           (strncmp(m->type, "fuse", 4) == 0 && getxattr(path, "user.zerofs.format", NULL, 0) >= 0);
}

/* scheme://…, by RFC 3986. */
static bool where_is_address(const char *path)
{
    size_t n = 0;

    while (isalnum((unsigned char)path[n]) || (n && strchr("+-.", path[n]) && path[n])) {
        n++;
    }
    return n > 1 && isalpha((unsigned char)path[0]) && strncmp(path + n, "://", 3) == 0;
}

bool where_check(const char *path, struct zf_err *err)
{
    zf_auto(where_mount) struct where_mount m = {.line = NULL};
    char shows[320];
    struct stat st;

    if (where_is_address(path) && stat(path, &st) != 0) {
        (void)zf_fail(
            err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
            "zerofs reads local paths: mount the bucket or download the checkpoint first");
        return zf_err_in(err, "%s", path);
    }
    zf_auto(mem) char *real = realpath(path, NULL);
    /* A path that cannot be looked at is refused where it is opened, with the reason. */
    if (!real || stat(real, &st) != 0 || !S_ISDIR(st.st_mode) || !where_find(real, false, &m) ||
        !where_is_zerofs(&m, real)) {
        return true;
    }
    where_shows(&m, real, shows, sizeof shows);
    if (strcmp(real, m.point) == 0) {
        return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                       "%.100s shows %s; it is a mount of zerofs: point at the checkpoint itself",
                       path, shows);
    }
    return zf_fail(err, ZF_E_UNKNOWN, ZF_OFF_NONE,
                   "%.100s is in a mount of zerofs that shows %s; point at the checkpoint itself",
                   path, shows);
}

void where_below(const char *path, struct zf_err *err)
{
    zf_auto(where_mount) struct where_mount m = {.line = NULL};
    zf_auto(mem) char *real = realpath(path, NULL);
    char shows[200];

    if (!real || !where_find(real, true, &m)) {
        return;
    }
    where_shows(&m, NULL, shows, sizeof shows);
    /* That something on another file system was passed over is this very mount, said worse. */
    char *passed = strstr(err->msg, "\" was passed over");
    while (passed && passed > err->msg && *passed != ';') {
        passed--;
    }
    size_t n = passed ? (size_t)(passed - err->msg) : strlen(err->msg);
    (void)snprintf(err->msg + n, sizeof err->msg - n, "; %.80s is a mount of zerofs and shows %s",
                   m.point, shows);
}

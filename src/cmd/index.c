/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs index: writes zerofs.index.json, which replaces a directory listing on web servers that have
 * none.  It is written under another name and renamed, so that a client never reads a half-written
 * file. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zf/base/fd.h>
#include <zf/base/out.h>
#include <zf/remote.h>

#include "options.h"

/* The mode of the file: as the umask has it, because a web server must read it. */
static mode_t index_mode(void)
{
    mode_t mask = umask(0);

    (void)umask(mask);
    return 0666 & ~mask;
}

static bool index_put(int fd, const char *part, const char *name, const struct zf_out *text,
                      struct zf_err *err)
{
    bool ok = zf_fd_write(fd, text->p, text->n) && fchmod(fd, index_mode()) == 0 && fsync(fd) == 0;

    if (!ok)
        (void)zf_fail_sys(err, "write it");
    if (close(fd) != 0 && ok)
        ok = zf_fail_sys(err, "write it");
    ok = ok && (rename(part, name) == 0 || zf_fail_sys(err, "give it its name"));
    if (!ok) {
        (void)unlink(part);
        (void)zf_err_in(err, "%s", name);
    }
    return ok;
}

static bool index_save(const char *dir, const struct zf_out *text, struct zf_err *err)
{
    zf_auto(mem) char *name = NULL;
    zf_auto(mem) char *part = NULL;

    if (asprintf(&name, "%s/%s", dir, ZF_REMOTE_INDEX) < 0 ||
        asprintf(&part, "%s/.%s.XXXXXX", dir, ZF_REMOTE_INDEX) < 0) {
        name = part = NULL;
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    int fd = mkostemp(part, O_CLOEXEC);
    if (fd < 0) {
        (void)zf_fail_sys(err, "make a file");
        return zf_err_in(err, "%s", dir);
    }
    return index_put(fd, part, name, text, err);
}

static bool index_of(const char *dir, bool sha256, bool to_stdout, struct zf_err *err)
{
    const struct zf_limits lim = zf_limits_default();
    zf_auto(out) struct zf_out text = {.p = NULL};
    bool address;

    if (zf_remote_knows(dir, &address) || address) {
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                      "an index is made of a local directory, and then served with its files");
        return zf_err_in(err, "%s", dir);
    }
    zf_auto(store) struct zf_store *st = zf_store_dir(dir, &lim, err);
    if (!st)
        return false;
    if (zf_store_focus(st)) {
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE, "this is a file, not a directory");
        return zf_err_in(err, "%s", dir);
    }
    if (!zf_remote_index(st, sha256, lim.dir_entries, &text, err))
        return false;
    if (!to_stdout)
        return index_save(dir, &text, err);
    (void)fwrite(text.p, 1, text.n, stdout);
    return true;
}

int cmd_index(const struct opts *o, int n, char **word)
{
    struct zf_err err;

    (void)n;
    return index_of(word[0], o->sha256, o->to_stdout, &err) ? cmd_finish(EXIT_OK) : cmd_fail(&err);
}

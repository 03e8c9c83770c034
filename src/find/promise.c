/* SPDX-License-Identifier: Apache-2.0 */
/* Checks what the name of the latest save refers to. */
#include "locate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "foreign.h"
#include "latest.h"
#include "match.h"
#include "save_word.h"
#include "saves.h"

static enum promise_state promise_bad(struct promise *p, const char *why)
{
    (void)snprintf(p->why, sizeof p->why, "%.*s", (int)sizeof p->why - 1, why);
    return PROMISE_BAD;
}

/* The result if the directory cannot be opened. */
static enum promise_state promise_shut(struct promise *p, struct zf_store *st,
                                       const struct zf_err *err)
{
    bool none = err->code == ZF_E_NOENT;

    if (zf_store_has(st, p->name, ZF_ENTRY_FILE))
        return promise_bad(p, "it is a file, not a directory");
    if (!zf_store_has(st, p->name, ZF_ENTRY_OTHER))
        return err->sys == ENOENT || none ? PROMISE_GONE : promise_bad(p, err->msg);
    if (err->sys == ENOENT)
        return promise_bad(p, "it is a dangling link");
    if (err->sys == ENOTDIR || none) {
        char kind[120];

        (void)snprintf(kind, sizeof kind, "it is %s, neither a directory nor a link to one",
                       zf_store_find(st, p->name)->what);
        return promise_bad(p, kind);
    }
    return promise_bad(p, err->msg);
}

/* Is the directory `sub` a save, or does it lead to one? */
static enum promise_state promise_content(struct promise *p, struct zf_store *sub,
                                          const struct zf_open_opts *o)
{
    struct zf_open_opts here = {.lim = o->lim, .format = o->format};
    zf_auto(match) struct match m = {.format = NULL};
    zf_auto(saves) struct zf_saves s = {.at = NULL};
    zf_auto(mem) char *latest = NULL;
    struct zf_err err = {.code = ZF_OK};
    const struct zf_entry *e;
    size_t n;

    if (!zf_store_list(sub, "", &e, &n, &err))
        return promise_bad(p, err.msg);
    if (n == 0)
        return promise_bad(p, "it is empty");
    /* Errors, such as two families that fit equally well, are reported when it is opened. */
    if (!match_dir(sub, &here, &m, &err) || m.format || !latest_save(sub, &latest, &err) ||
        latest || (saves_nearest(sub, o->lim, &s, &err) && s.n))
        return PROMISE_KEPT;
    return promise_bad(p, foreign_find(sub, NULL, &err) ? err.msg : "it does not hold a save");
}

bool promise_find(struct zf_store *st, const struct zf_open_opts *o, struct promise *out,
                  struct zf_err *err)
{
    struct zf_err why = {.code = ZF_OK};
    const uint64_t since = zf_store_doubts(st);

    *out = (struct promise){.state = PROMISE_NONE};
    if (!latest_save(st, &out->name, err))
        return false;
    if (!out->name)
        return true;
    out->is_file = strcmp(out->name, "latest") != 0 || !zf_store_has(st, "latest", ZF_ENTRY_DIR);
    zf_auto(store) struct zf_store *sub =
        zf_store_has(st, out->name, ZF_ENTRY_FILE) ? NULL : zf_store_sub(st, out->name, &why);
    out->state = sub ? promise_content(out, sub, o) : promise_shut(out, st, &why);
    return out->state == PROMISE_KEPT || !zf_store_doubt(st, since, 0, err);
}

bool promise_refuse(const struct promise *p, struct zf_store *st, const struct zf_limits *lim,
                    struct zf_err *err)
{
    zf_auto(saves) struct zf_saves s = {.at = NULL};
    struct zf_err ignored = {.code = ZF_OK};
    char list[120] = "none";

    if (p->state == PROMISE_BAD) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                       "the latest save is recorded as \"%.60s\", but %s", p->name, p->why);
    }
    if (zf_saves_list(st, ZF_SAVES_WHOLE, lim, &s, &ignored) && s.n)
        save_word_list(&s, NULL, list, sizeof list);
    return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "the latest save is recorded as \"%.60s\", which does not exist. Found: %s (-o "
                   "tag=NAME selects one)",
                   p->name, list);
}

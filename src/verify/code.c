/* SPDX-License-Identifier: Apache-2.0 */
/* Reports imports and calls that unpickling in Python would make: for every file of the save, and for the other files
 * in its directories, which a user may take for a part of it. */
#include <inttypes.h>

#include <zf/codec/code_list.h>

#include "checks.h"

struct code {
    struct verify *v;
    struct zf_code_list list;
    struct zf_err *err;
};

/* Scans one file.  If it cannot be read, verify_pass reported that if the save needs it; otherwise it is a note. */
static bool code_look(struct code *c, const struct files_path *p)
{
    zf_auto(mem) char *path = strndup(p->hh.key, p->hh.keylen);
    struct zf_err why;

    if (!path)
        return zf_fail_sys(c->err, "list files");
    zf_auto(source) struct zf_source *src = zf_store_open(c->v->c->store, path, &why);
    if (src && zf_code_list_add(&c->list, path, src, c->v->o->lim, &why))
        return true;
    if (why.code == ZF_E_NOMEM) {
        *c->err = why;
        return false;
    }
    const struct verify_about about = {.kind = ZF_FOUND_CODE,
                                       .weight = p->beside ? ZF_WEIGHT_NOTE : ZF_WEIGHT_UNREAD,
                                       .file = path};
    return verify_found(c->v, &about, c->err, "it was not searched for pickles: %s", why.msg);
}

static bool code_report_item(struct code *c, const struct zf_code_item *i)
{
    const struct zf_code_place *at = i->called.file ? &i->called : &i->first;
    const struct verify_about about = {.kind = ZF_FOUND_CODE,
                                       .weight = i->is == ZF_CODE_DANGER ? ZF_WEIGHT_DANGER
                                                                         : ZF_WEIGHT_NOTE,
                                       .file = at->file,
                                       .first = at->packed ? 0 : at->at,
                                       .end = at->packed ? 0 : at->at};

    return i->is == ZF_CODE_KNOWN ||
           verify_found(c->v, &about, c->err,
                        "loading it with Python would import %s%s.%s%s (%s%" PRIu64 " file%s)",
                        i->called.file ? "and call " : "", zf_code_item_module(i),
                        zf_code_item_name(i), at->packed ? " in a compressed member" : "",
                        i->is == ZF_CODE_DANGER ? "dangerous; " : "", i->files,
                        i->files == 1 ? "" : "s");
}

/* Reports where the scan of a pickle stopped.  If Python stops there, too, nothing can be hidden after it. */
static bool code_report_stop(struct code *c, const struct zf_code_stop *s)
{
    const struct verify_about about = {
        .kind = ZF_FOUND_CODE,
        .weight = s->python_stops ? ZF_WEIGHT_NOTE : ZF_WEIGHT_DANGER,
        .file = s->at.file,
        .first = s->at.packed || s->at.at == ZF_OFF_NONE ? 0 : s->at.at,
        .end = s->at.packed || s->at.at == ZF_OFF_NONE ? 0 : s->at.at};

    return verify_found(c->v, &about, c->err, "%s%s%s", s->why, *s->at.member ? ", in " : "",
                        s->at.member);
}

bool verify_code(struct verify *v, struct zf_err *err)
{
    struct code c = {.v = v, .err = err};
    bool ok = true;

    for (const struct files_path *p = v->listed.paths; p && ok; p = p->hh.next)
        ok = code_look(&c, p);
    for (const struct zf_code_item *i = c.list.items; i && ok; i = i->hh.next)
        ok = code_report_item(&c, i);
    for (size_t i = 0; i < c.list.stop.n && ok; i++)
        ok = code_report_stop(&c, &c.list.stop.at[i]);
    zf_code_list_fini(&c.list);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Reports what opening the checkpoint found: lost bytes, one finding per file and reason with all tensors that lost
 * data there; tensors of which only the name is left; notes. */
#include <zf/base/out.h>
#include <zf/base/table.h>

#include "checks.h"

/* A reason, and the tensors that lost bytes for it. */
struct loss {
    UT_hash_handle hh; /* key: file and reason, each with its NUL */
    place_tensors tensors;
    zf_vec(const char *) missing; /* names, borrowed */
};

struct losses {
    struct loss *all;
    uint32_t tensor;
    struct zf_err *err;
};

static struct loss *structure_find(struct losses *l, const struct zf_lost *how)
{
    zf_auto(out) struct zf_out key = {0};

    zf_out_add(&key, how->file, strlen(how->file) + 1);
    zf_out_add(&key, how->why, strlen(how->why) + 1);
    return zf_out_ok(&key, l->err) ? zf_table_make(l->all, key.p, key.n, l->err) : NULL;
}

static bool structure_add(void *ctx, const struct zf_lost *how)
{
    struct losses *l = ctx;
    struct loss *one = structure_find(l, how);

    if (!one)
        return false;
    if (one->tensors.n > 0 && one->tensors.at[one->tensors.n - 1] == l->tensor)
        return true;
    uint32_t *to = zf_vec_push(&one->tensors, l->err);
    if (to)
        *to = l->tensor;
    return to != NULL;
}

static bool structure_load(struct losses *l, const struct verify *v)
{
    for (size_t i = 0; i < v->o->n; i++) {
        l->tensor = (uint32_t)i;
        if (v->o->tensor[i].tensor->lost &&
            !zf_map_each_loss(v->o->tensor[i].tensor->data, structure_add, l))
            return false;
    }
    for (uint32_t i = 0; i < v->c->n_missing && !v->o->part; i++) {
        struct loss *one = structure_find(l, &v->c->missing[i].how);
        const char **to = one ? zf_vec_push(&one->missing, l->err) : NULL;

        if (!to)
            return false;
        *to = v->c->missing[i].name;
    }
    return true;
}

static void structure_fini(struct losses *l)
{
    for (struct loss *e = l->all; e; e = e->hh.next) {
        zf_vec_fini(&e->tensors);
        zf_vec_fini(&e->missing);
    }
    zf_table_free(l->all);
}

static bool structure_report(const struct losses *l, struct verify *v, struct zf_err *err)
{
    for (struct loss *e = l->all; e; e = e->hh.next) {
        const char *file = e->hh.key, *why = file + strlen(file) + 1;
        const struct verify_about about = {
            .kind = ZF_FOUND_STRUCTURE, .weight = ZF_WEIGHT_DAMAGE, .file = file};
        const size_t n = e->missing.n;

        v->hit.n = 0;
        if (!zf_vec_room(&v->hit, e->tensors.n + 1, err))
            return false;
        for (size_t i = 0; i < e->tensors.n; i++)
            v->hit.at[v->hit.n++] = e->tensors.at[i];
        v->sum->tensors += n;
        v->sum->bad_tensors += n;
        if (!(n ? verify_found(v, &about, err, "%s; for %zu tensor%s only the name is known: %s%s",
                               why, n, n == 1 ? "" : "s", e->missing.at[0], n > 1 ? ", …" : "")
                : verify_found(v, &about, err, "%s", why)))
            return false;
    }
    return true;
}

/* Is it damage?  Not if something is only of a kind or size that zerofs does not read. */
static enum zf_finding_weight structure_unread_weight(const struct zf_err *why)
{
    return why->code == ZF_E_FORMAT || why->code == ZF_E_NOENT ||
                   (why->code == ZF_E_IO && why->sys == 0)
               ? ZF_WEIGHT_DAMAGE
               : ZF_WEIGHT_UNREAD;
}

/* Reports the failure that degraded opening turned into a mere note, since it may be a missing file, or the one that
 * degraded opening ended with. */
static bool structure_report_refusal(struct verify *v, struct zf_err *err)
{
    const struct zf_err *unread = v->o->unread, *why = unread ? unread : v->o->refused;

    if (!why)
        return true;
    const uint64_t at = why->off == ZF_OFF_NONE ? 0 : why->off;
    const struct verify_about about = {.kind = ZF_FOUND_STRUCTURE,
                                       .weight = unread ? structure_unread_weight(why)
                                                        : verify_weight(why),
                                       .file = why->path,
                                       .first = at,
                                       .end = at};
    return verify_found(v, &about, err, "%s%s%s", unread ? "the structure cannot be read" : "",
                        !unread ? ""
                        : v->o->quick
                            ? ": "
                            : ", so only archives, recorded sums and pickles are checked: ",
                        why->msg);
}

/* Reports a note; a broken file counts as damage of that file. */
static bool structure_report_note(struct verify *v, const struct zf_note *n, struct zf_err *err)
{
    const bool broken = n->kind == ZF_NOTE_BROKEN;
    zf_auto(mem) char *file = strndup(n->about, broken ? strcspn(n->about, "\n") : 0);
    const struct verify_about about = {.kind = ZF_FOUND_STRUCTURE,
                                       .weight = broken ? ZF_WEIGHT_DAMAGE : ZF_WEIGHT_NOTE,
                                       .file = file};

    return file ? verify_found(v, &about, err, "%s", n->text) : zf_fail_sys(err, "verify");
}

bool verify_structure(struct verify *v, struct zf_err *err)
{
    struct losses l = {.err = err};
    bool ok = structure_load(&l, v) && structure_report(&l, v, err);

    structure_fini(&l);
    ok = ok && structure_report_refusal(v, err);
    for (uint32_t i = 0; ok && i < v->c->n_notes; i++) {
        if (!v->o->quick && !v->o->part && v->c->note[i].kind == ZF_NOTE_UNCOMPARED)
            continue; /* it has been compared by now */
        ok = structure_report_note(v, &v->c->note[i], err);
    }
    return ok;
}

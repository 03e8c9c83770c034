/* SPDX-License-Identifier: Apache-2.0 */
/* layer_M_expert_E_mp_rank_NN_model_states.pt (before 0.6: expert_E_…): the 16-bit weights of one
 * expert, under its index in the whole model.  The model-states file does not hold experts.  With
 * AutoEP, whose masters are one fused tensor per layer, expert E's slice is saved as <name>.<E>.
 * Source: deepspeed/runtime/engine.py (_save_moe_checkpoint, _get_expert_ckpt_name), 0.5.0 …
 * 0.19.8. */
#include "steps.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>

#define NATIVE ".deepspeed_moe.experts.deepspeed_experts."

/* Takes a decimal number off the front of p[n]. */
static uint32_t experts_digits(const char *p, uint32_t n, uint32_t *out)
{
    uint64_t v = 0;
    uint32_t k = 0;

    for (; k < n && k < 9 && p[k] >= '0' && p[k] <= '9'; k++)
        v = 10 * v + (uint64_t)(p[k] - '0');
    *out = (uint32_t)v;
    return k;
}

bool ds_expert_name(struct ds_name name, struct ds_expert_name *out)
{
    const char *at = memmem(name.p, name.n, NATIVE, sizeof NATIVE - 1);
    uint32_t begin, digits;

    if (!at)
        return false;
    begin = (uint32_t)(at - name.p) + (uint32_t)(sizeof NATIVE - 1);
    digits = experts_digits(name.p + begin, name.n - begin, &out->number);
    out->prefix = (struct ds_name){name.p, begin};
    out->rest = (struct ds_name){name.p + begin + digits, name.n - begin - digits};
    return digits > 0 && out->rest.n > 0 && out->rest.p[0] == '.';
}

/* Is the name "<name of a fused tensor>.E"?  *expert: E. */
static bool experts_fused_name(const struct ds_model *m, struct ds_name name, uint32_t *expert)
{
    const char *dot = memrchr(name.p, '.', name.n);
    struct ds_name of = {name.p, dot ? (uint32_t)(dot - name.p) : 0};

    return dot && ds_autoep_find(m->fused, m->n_fused, of) &&
           experts_digits(dot + 1, name.n - of.n - 1, expert) == name.n - of.n - 1;
}

/* ---- reading ---- */

/* Checks that an expert index in the entry's name is that of its file.  Some releases' names have none. */
static bool experts_check_number(const struct ds_rank *mp, const struct ds_entry *e,
                                 struct zf_err *err)
{
    struct ds_expert_name name;
    uint32_t number = e->file->expert;

    if (ds_expert_name(e->name, &name))
        number = name.number;
    else if (!experts_fused_name(&mp->model, e->name, &number))
        number = e->file->expert;
    return number == e->file->expert ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "this is the file of expert %u, but it holds \"%.*s\"", e->file->expert,
                   (int)e->name.n, e->name.p);
}

/* Appends the tensors of a file. */
static bool experts_read_file(struct ds_rank *mp, const struct ds_file *f, struct zf_err *err)
{
    zf_auto(torch) struct zf_torch *t = zf_torch_ahead_open(&mp->save->files, f->path, err);
    struct ds_model *all = &mp->expert;
    const uint32_t first = all->n_entries;

    if (!t || !ds_entries_read(mp->save, t, f, all, err))
        return false;
    for (uint32_t i = first; i < all->n_entries; i++) {
        if (!experts_check_number(mp, &all->entry[i], err)) {
            all->n_entries = first;
            return zf_err_in(err, "%s", zf_torch_name(t));
        }
    }
    return true;
}

static bool experts_check_doubles(const struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_model *all = &mp->expert;

    for (uint32_t i = 1; i < all->n_entries; i++) {
        uint32_t a = all->by_name[i - 1], b = all->by_name[i];
        struct ds_name name = all->entry[b].name;

        if (ds_name_eq(all->entry[a].name, name)) {
            return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "\"%s\" and \"%s\" both hold \"%.*s\"",
                           all->entry[a].file->path, all->entry[b].file->path, (int)name.n, name.p);
        }
    }
    return true;
}

bool ds_experts_read(struct ds_rank *mp, struct zf_err *err)
{
    const struct ds_file *f = mp->save->dir.expert, *end = f + mp->save->dir.n_experts;
    uint32_t own = mp->mp;

    mp->expert.path = mp->model.path;
    while (f < end && f->mp < own)
        f++;
    while (end > f && end[-1].mp > own)
        end--;
    if (!ds_files_expect(mp->save, f, (uint32_t)(end - f), UINT32_MAX, err))
        return false;
    for (; f < end; f++)
        if (!experts_read_file(mp, f, err) &&
            (!mp->save->o->degraded || err->code == ZF_E_NOMEM ||
             !zf_note_failure(mp->save->b, ZF_NOTE_OTHER, NULL, err,
                              "the 16-bit weights of an expert are lost: ")))
            return false;
    return ds_model_index(mp->save, &mp->expert, err) && experts_check_doubles(mp, err);
}

const struct ds_entry *ds_experts_weight(const struct ds_rank *mp, const struct ds_param *p,
                                         uint64_t l)
{
    const struct ds_entry *e;
    char name[1024];
    const uint32_t most = sizeof name - sizeof ".18446744073709551615";

    if (!p->whole) {
        e = ds_model_find(&mp->model, p->name);
        return e ? e : ds_model_find(&mp->expert, p->weight.p ? p->weight : p->name);
    }
    /* A truncated name could be that of another tensor. */
    if (p->name.n > most)
        return NULL;
    memcpy(name, p->name.p, p->name.n);
    int n = snprintf(name + p->name.n, sizeof name - p->name.n, ".%llu",
                     (unsigned long long)(p->first + l));
    return ds_model_find(&mp->expert, (struct ds_name){name, p->name.n + (uint32_t)n});
}

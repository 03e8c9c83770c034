/* SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

static size_t layers_at(const struct legacy_layers *l, uint32_t stack, uint32_t chunk,
                        uint32_t stage)
{
    return ((size_t)stack * l->chunks + chunk) * l->stages + stage;
}

/* One file's layers, by stack and chunk, against those of the other ranks of its stage; forgets them. */
static bool layers_take_file(struct legacy_layers *l, const struct legacy_join *j, uint32_t file,
                             uint64_t *most, bool *first, struct zf_err *err)
{
    const struct legacy_file *f = &j->files->file[file];
    uint32_t stage = f->at.at[ZF_AXIS_PIPELINE];

    for (uint32_t s = 0; s < LEGACY_STACKS; s++) {
        for (uint32_t c = 0; c < l->chunks; c++) {
            size_t at = layers_at(l, s, c, stage);
            uint64_t n = most[s * (size_t)l->chunks + c];

            most[s * (size_t)l->chunks + c] = 0;
            if (!first[stage] && l->count[at] != n) {
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "\"%s\" has %llu layers of \"%s\" in chunk %u, other ranks of its "
                               "stage have %llu",
                               f->dir, (unsigned long long)n, l->name[s] ? l->name[s] : "", c,
                               (unsigned long long)l->count[at]);
            }
            l->count[at] = n;
        }
    }
    first[stage] = false;
    return true;
}

static bool layers_count_files(struct legacy_layers *l, const struct legacy_join *j,
                               struct zf_err *err)
{
    uint64_t *most = zf_arena_get(j->a, (uint64_t)LEGACY_STACKS * l->chunks, sizeof *most, err);
    bool *first = zf_arena_get(j->a, l->stages, sizeof *first, err);
    uint32_t i = 0;

    if (!most || !first) {
        return false;
    }
    for (uint32_t p = 0; p < l->stages; p++) {
        first[p] = true;
    }
    for (uint32_t file = 0; file < j->files->n; file++) {
        for (; i < j->n_parts && j->part[i].file == file; i++) {
            const struct legacy_part *p = &j->part[i];
            struct legacy_name name;

            if (!legacy_names_parse(p->name, p->name_n, j->settings, &name)) {
                return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                               "how \"%.120s\" is cut is not known", p->name);
            }
            if (name.stack.n > 0 && !name.mtp) {
                uint64_t *m = &most[name.stack_id * (size_t)l->chunks + p->chunk];

                l->name[name.stack_id] = name.stack.p;
                *m = name.layer >= *m ? name.layer + 1 : *m;
            }
        }
        if (j->files->file[file].path && !layers_take_file(l, j, file, most, first, err)) {
            return false;
        }
    }
    return true;
}

bool legacy_layers_count(struct legacy_layers *l, const struct legacy_join *j, struct zf_err *err)
{
    uint32_t n_stacks = 0;
    uint64_t n;

    *l = (struct legacy_layers){.stages = zf_mesh_parts(&j->files->mesh, ZF_AXIS_PIPELINE),
                                .chunks = j->n_chunks};
    n = (uint64_t)LEGACY_STACKS * l->chunks * l->stages;
    l->begin = zf_arena_get(j->a, n, sizeof *l->begin, err);
    l->count = zf_arena_get(j->a, n, sizeof *l->count, err);
    if (!l->begin || !l->count || !layers_count_files(l, j, err)) {
        return false;
    }
    for (uint32_t s = 0; s < LEGACY_STACKS; s++) {
        n_stacks += l->name[s] != NULL;
    }
    for (uint32_t s = 0; s < LEGACY_STACKS; s++) {
        for (uint32_t c = 0; c < l->chunks; c++) {
            for (uint32_t p = 0; p < l->stages; p++) {
                size_t at = layers_at(l, s, c, p);

                l->begin[at] = l->total[s];
                l->total[s] += l->count[at];
            }
        }
        if (l->name[s] && l->total[s] != j->settings->num_layers) {
            /* the stacks of an encoder and a decoder may have numbers of their own */
            return zf_fail(
                err, j->settings->num_layers && n_stacks == 1 ? ZF_E_FORMAT : ZF_E_UNSUPPORTED,
                ZF_OFF_NONE, "the files hold %llu layers of \"%s\", but args.num_layers is %llu",
                (unsigned long long)l->total[s], l->name[s],
                (unsigned long long)j->settings->num_layers);
        }
    }
    return true;
}

uint64_t legacy_layers_number(const struct legacy_layers *l, const struct legacy_name *name,
                              uint32_t chunk, uint32_t stage)
{
    return name->mtp ? name->layer
                     : l->begin[layers_at(l, name->stack_id, chunk, stage)] + name->layer;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors are left out of what a checkpoint shows, as a reader that skips one, drops a set or passes over a rank's file
 * would, in each family: the bytes that were theirs alone are found in their files. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <zf/find.h>
#include <zf/verify/verify.h>

#define NAME 512
#define PIECES 256

/* The last tensors that are left out of one save one by one. */
#define SINGLES 24

/* Bytes of a file. */
struct piece {
    char file[NAME];
    uint64_t off, n;
};

static struct {
    struct piece at[PIECES];
    size_t n;
    bool packed; /* some lie elsewhere, or as something else */
} lies;

/* Bytes that were found to be shown nowhere, and notes. */
static struct {
    struct piece at[4 * PIECES];
    size_t n, damage;
} found;

static void note_found(void *ctx, const struct zf_finding *f)
{
    (void)ctx;
    if (f->kind != ZF_FOUND_COVERAGE)
        return;
    found.damage += f->weight == ZF_WEIGHT_DAMAGE;
    if (found.n < sizeof found.at / sizeof *found.at) {
        struct piece *p = &found.at[found.n++];

        (void)snprintf(p->file, sizeof p->file, "%s", f->file);
        p->off = f->first;
        p->n = f->end - f->first;
    }
}

static bool note_piece(void *ctx, struct zf_source *src, uint64_t off, uint64_t n)
{
    (void)ctx;
    const struct zf_trace t = zf_source_trace(src, off, n);

    if (!t.src->ops->identity || t.codec || t.len < n || lies.n == PIECES) {
        lies.packed = true;
        return true;
    }
    (void)snprintf(lies.at[lies.n].file, NAME, "%s", t.src->name);
    lies.at[lies.n].off = t.off;
    lies.at[lies.n++].n = n;
    return true;
}

static void lies_in(const struct zf_tensor *t)
{
    lies.n = 0;
    lies.packed = false;
    (void)zf_map_each_source(t->data, note_piece, NULL);
}

static bool meets(const struct piece *a, const struct piece *b)
{
    return strcmp(a->file, b->file) == 0 && a->off < b->off + b->n && b->off < a->off + a->n;
}

/* ---- a save ---- */

struct save {
    struct zf_limits lim;
    struct zf_checkpoint *c;
    struct zf_verify_tensor *all, *some;
    size_t n;
};

static void save_open(struct save *s, const char *path)
{
    char where[NAME];
    struct zf_err err;

    *s = (struct save){.lim = zf_limits_default()};
    const struct zf_open_opts how = {.lim = &s->lim, .degraded = true, .copies = true};
    (void)snprintf(where, sizeof where, "%s/%s", getenv("ZF_DATA"), path);
    zf_auto(store) struct zf_store *st = zf_store_by(NULL, where, &s->lim, &err);
    assert_ok(st, &err);
    s->c = zf_open(st, &how, &err);
    assert_ok(s->c, &err);
    for (uint32_t i = 0; i < s->c->n_sets; i++)
        s->n += s->c->set[i].n;
    s->all = calloc(s->n, sizeof *s->all);
    s->some = calloc(s->n, sizeof *s->some);
    assert_true(s->all && s->some);
    s->n = 0;
    for (uint32_t i = 0; i < s->c->n_sets; i++) {
        const struct zf_set *set = &s->c->set[i];

        for (uint32_t k = 0; k < set->n; k++) {
            if (set->tensor[k].alias_of == k) {
                s->all[s->n++] = (struct zf_verify_tensor){
                    .path = set->tensor[k].name, .set = set, .tensor = &set->tensor[k]};
            }
        }
    }
}

static void save_close(struct save *s)
{
    free(s->all);
    free(s->some);
    zf_checkpoint_free(s->c);
}

static void look_at(const struct save *s, const struct zf_verify_tensor *tensor, size_t n)
{
    struct zf_verify_progress progress = {0};
    struct zf_verify_sum sum;
    struct zf_err err;
    const struct zf_verify_opts how = {.tensor = tensor,
                                       .n = n,
                                       .jobs = 2,
                                       .coverage = true,
                                       .lim = &s->lim,
                                       .found = note_found,
                                       .progress = &progress};

    found.n = found.damage = 0;
    assert_ok(zf_verify(s->c, &how, &sum, &err), &err);
}

/* Looks without those that `out` says, and gives how many of them are missed.  Some need not be: other tensors have the same
 * bytes, or bytes that are equal. */
static size_t leave_out(const struct save *s, bool (*out)(const struct save *s, size_t i, size_t k),
                        size_t k, size_t *n_out)
{
    size_t n = 0, missed = 0;

    *n_out = 0;
    for (size_t i = 0; i < s->n; i++)
        if (out(s, i, k))
            ++*n_out;
        else
            s->some[n++] = s->all[i];
    look_at(s, s->some, n);
    for (size_t i = 0; i < s->n; i++) {
        bool is = false;

        if (!out(s, i, k))
            continue;
        lies_in(s->all[i].tensor);
        for (size_t a = 0; a < lies.n && !is; a++)
            for (size_t b = 0; b < found.n && !is; b++)
                is = meets(&lies.at[a], &found.at[b]);
        missed += is;
    }
    return missed;
}

static bool is_tensor(const struct save *s, size_t i, size_t k)
{
    (void)s;
    return i == k;
}

static bool is_in_set(const struct save *s, size_t i, size_t k)
{
    return s->all[i].set == &s->c->set[k];
}

/* In the file that tensor k begins in. */
static bool is_in_file(const struct save *s, size_t i, size_t k)
{
    char file[NAME];

    lies_in(s->all[k].tensor);
    if (lies.n == 0)
        return false;
    (void)snprintf(file, sizeof file, "%s", lies.at[0].file);
    lies_in(s->all[i].tensor);
    for (size_t a = 0; a < lies.n; a++)
        if (strcmp(lies.at[a].file, file) == 0)
            return true;
    return false;
}

/* Pieces of a tensor, and whether another has some byte of them. */
static struct {
    struct piece at[PIECES];
    size_t n;
    bool shared;
} mine;

static bool note_shared(void *ctx, struct zf_source *src, uint64_t off, uint64_t n)
{
    (void)ctx;
    for (uint64_t step; n > 0; off += step, n -= step) {
        const struct zf_trace t = zf_source_trace(src, off, n);
        struct piece p = {.off = t.off, .n = t.codec ? t.packed : t.len};

        (void)snprintf(p.file, sizeof p.file, "%s", t.src->name);
        for (size_t i = 0; i < mine.n; i++)
            mine.shared = mine.shared || meets(&mine.at[i], &p);
        step = t.len > 0 && t.len < n ? t.len : n;
    }
    return true;
}

/* Are all its pieces large, and has no other tensor one of its bytes, or equal ones? */
static bool is_alone(const struct save *s, size_t k)
{
    const uint64_t n = zf_map_size(s->all[k].tensor->data);
    uint8_t *a = malloc(n + 1), *b = malloc(n + 1);
    uint64_t least = UINT64_MAX, sum = 0;
    struct zf_err err;
    bool alone;

    assert_true(a && b);
    lies_in(s->all[k].tensor);
    (void)memcpy(mine.at, lies.at, sizeof mine.at);
    mine.n = lies.n;
    mine.shared = false;
    for (size_t p = 0; p < mine.n; p++) {
        least = mine.at[p].n < least ? mine.at[p].n : least;
        sum += mine.at[p].n;
    }
    alone = mine.n > 0 && least > 64 && !lies.packed && sum == n &&
            zf_map_read(s->all[k].tensor->data, a, n, 0, &err);
    for (size_t i = 0; i < s->n && alone; i++) {
        const struct zf_map *other = s->all[i].tensor->data;

        if (i != k) {
            (void)zf_map_each_source(other, note_shared, NULL);
            alone = !mine.shared && !(zf_map_size(other) == n &&
                                      zf_map_read(other, b, n, 0, &err) && memcmp(a, b, n) == 0);
        }
    }
    free(a);
    free(b);
    return alone;
}

/* ---- tests ---- */

static void all_is_shown(const struct save *s, const char *path)
{
    look_at(s, s->all, s->n);
    if (found.damage > 0)
        fail_msg("%s: %s, byte %llu", path, found.at[0].file, (unsigned long long)found.at[0].off);
}

/* Each that has bytes of its own is missed, whatever notes say of other files: deepspeed/zero1_w2 and olmo/full have some. */
static size_t one_is_skipped(const struct save *s, const char *path)
{
    size_t done = 0, n;

    for (size_t k = s->n; k-- > 0 && done < SINGLES;) {
        if (!is_alone(s, k))
            continue;
        if (leave_out(s, is_tensor, k, &n) != 1)
            fail_msg("%s: %s/%s is not missed", path, s->all[k].set->path, s->all[k].path);
        if (found.damage == 0)
            fail_msg("%s: %s/%s counts as a note", path, s->all[k].set->path, s->all[k].path);
        done++;
    }
    return done;
}

static size_t set_is_dropped(const struct save *s)
{
    size_t done = 0, n;

    for (uint32_t k = 0; k < s->c->n_sets; k++)
        done += leave_out(s, is_in_set, k, &n) > 0;
    return done;
}

static size_t file_is_passed_over(const struct save *s)
{
    size_t done = 0, n;

    for (size_t k = 0; k < s->n; k += s->n / 8 + 1)
        done += leave_out(s, is_in_file, k, &n) > 0;
    return done;
}

struct family {
    const char *name, *save[6];
};

static void family_is_covered(void **state)
{
    const struct family *f = *state;
    size_t one = 0, set = 0, file = 0;

    for (size_t i = 0; i < 6 && f->save[i]; i++) {
        struct save s;

        save_open(&s, f->save[i]);
        all_is_shown(&s, f->save[i]);
        one += one_is_skipped(&s, f->save[i]);
        set += set_is_dropped(&s);
        file += file_is_passed_over(&s);
        save_close(&s);
    }
    if (!one || !set || !file)
        fail_msg("%s: %zu tensors, %zu sets, %zu files were missed", f->name, one, set, file);
}

int main(void)
{
    static struct family f[] = {
        {"consolidated", {"consolidated/fairscale0.4.13_llama3_w4"}},
        {"dcp",
         {"dcp/torch2.4/fsdp2_w2", "dcp/torch2.13/nocoll_w3", "dcp/torch2.13/verl_fsdp2_w3"}},
        {"deepspeed",
         {"deepspeed/zero1_w2", "deepspeed/zero3_w2", "deepspeed/ds0_19_8_tp2_zero2_info_w4",
          "deepspeed/zero2_w2_universal/global_step3_universal", "deepspeed/moe_zero2",
          "deepspeed/ds0_19_8_zero2_legacyser_w2"}},
        {"megatron, torch_dist",
         {"megatron/pypi_0.19.2_tp2pp2_dp_zero_buckets", "megatron/pypi_0.16.1_ep2_moe"}},
        {"megatron, zarr",
         {"megatron/pypi_0.9.0_zarr_recoded_1", "megatron/pypi_0.5.0_zarr_pp2_bf16"}},
        {"megatron, legacy", {"megatron/pypi_0.16.1_legacy_tp2pp2_glu"}},
        {"nanotron", {"nanotron/tp2dp2_zero1_0.4"}},
        {"olmo", {"olmo/full", "olmo/pypi_0.6.0/local", "olmo/pypi_core_2.4.0/step2"}},
        {"safetensors", {"hf/transformers5.23.0_gpt2_sharded"}},
        {"torch", {"hf/bin_sharded_llama", "hf/torchsave_rezipped_deflate"}},
        {"torch_checkpointing",
         {"torch_checkpointing/fsdp2_safetensors_w2_0.1.1", "torch_checkpointing/fsdp2_w2_0.1.1"}}};
    struct CMUnitTest test[sizeof f / sizeof *f];

    for (size_t i = 0; i < sizeof f / sizeof *f; i++) {
        test[i] = (struct CMUnitTest){
            .name = f[i].name, .test_func = family_is_covered, .initial_state = &f[i]};
    }
    return cmocka_run_group_tests(test, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever fails while a checkpoint is opened, the outcome is a refusal with a sentence, or the very same tensors: never
 * fewer, other ones, or none, without a word.  Each file and directory of real checkpoints fails in turn (open, stat, readdir,
 * read), each call fails once, strictly and degraded; then, what is read while a file fails is right afterwards.
 *
 * A sample is drawn with a fixed seed; of the heap's calls, the first from each place in the program is in it.  ZEROFS_FAULTS=all takes every fault; arguments are checkpoints to take instead. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/auto.h>
#include <zf/find.h>

#include "support/broken_io.h"

static bool say_all;
static unsigned bad, codes[16];
static const char *where;

struct thing {
    char *name; /* "set|tensor" or "|blob" */
    uint8_t *p;
    uint64_t n, shape;
    enum zf_dtype dtype;
    bool blob;
};

struct things {
    struct thing *at;
    size_t n;
    char *notes;
};

static void things_free(struct things *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->at[i].name);
        free(t->at[i].p);
    }
    free(t->at);
    free(t->notes);
    *t = (struct things){.at = NULL};
}

static void *need(void *p)
{
    if (!p)
        abort();
    return p;
}

static unsigned complained; /* of this fault */

static void complain(const char *how, const char *what, const char *name)
{
    bad++;
    if (complained++)
        return;
    (void)printf("# %s: %s: %s %s\n", where, how, what, name);
}

/* ---- what a checkpoint holds --------------------------------------------------------------------- */

struct seen {
    const struct zf_checkpoint *c;
    struct things *now;        /* filled, or */
    const struct things *want; /* compared with */
    size_t found;
    const char *how;
    bool whole; /* nothing may fail */
    bool strict, told;
};

static const struct thing *want_of(const struct things *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->at[i].name, name) == 0)
            return &t->at[i];
    return NULL;
}

/* Each piece that can be read is right. */
static void compare(struct seen *s, const struct zf_map *m, const struct thing *w)
{
    uint8_t piece[64], *p = need(malloc(w->n + 1));
    struct zf_err err;
    uint64_t n = zf_map_size(m);

    if (n != w->n) {
        if (!w->blob || s->strict)
            complain(s->how, "another size of", w->name);
        s->found--; /* what was told must account for it */
    } else if (zf_map_read(m, p, (size_t)n, 0, &err)) {
        if (memcmp(p, w->p, n) != 0 && w->blob && !s->strict)
            s->found--;
        else if (memcmp(p, w->p, n) != 0)
            complain(s->how, "wrong bytes in", w->name);
    } else if (s->whole) {
        complain(s->how, err.msg, w->name);
    } else {
        const uint64_t step = n > 4096 ? n / 64 & ~UINT64_C(63) : sizeof piece;

        for (uint64_t at = 0; at < n; at += step) {
            size_t k = n - at < sizeof piece ? (size_t)(n - at) : sizeof piece;

            if (zf_map_read(m, piece, k, at, &err) && memcmp(piece, w->p + at, k) != 0) {
                complain(s->how, "wrong bytes in a piece of", w->name);
                break;
            }
        }
    }
    free(p);
}

static bool lost_wholly(const struct zf_map *m)
{
    struct zf_loss loss;

    return zf_map_loss(m, 0, &loss) && loss.first == 0 && loss.end == zf_map_size(m);
}

/* Degraded, the root has the stored weights where masters are lost.  They are not counted: the master is. */
static void look_moved(struct seen *s, const char *name, const struct zf_map *m,
                       enum zf_dtype dtype)
{
    char stored[2100];

    (void)snprintf(stored, sizeof stored, "stored%s", name);
    const struct thing *w = want_of(s->want, stored);

    s->found--;
    if (w && w->dtype == dtype) {
        s->found++;
        compare(s, m, w);
        s->found--;
    } else if (!lost_wholly(m)) {
        complain(s->how, "another type of", name);
    }
}

/* The name under which the whole save has what a degraded one shows elsewhere: a master that cannot be held against its
 * weight, or a vector whose shape is lost with the model states.  NULL: it is neither. */
static const char *name_when_whole(const char *name)
{
    static const char *const sets[] = {"optim/param", "bucket/", "bucket"};

    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        const size_t n = strlen(sets[i]);

        if (strncmp(name, sets[i], n) == 0 && (name[n] == '|' || sets[i][n - 1] == '/'))
            return name + n;
    }
    return NULL;
}

/* Degraded, the same bytes in another place.  They are not counted. */
static bool look_elsewhere(struct seen *s, const char *name, const struct zf_map *m,
                           enum zf_dtype dtype)
{
    const char *whole = name_when_whole(name);
    const struct thing *w = whole ? want_of(s->want, whole) : NULL;

    if (!w || w->dtype != dtype)
        return false;
    s->found++;
    compare(s, m, w);
    s->found--;
    return true;
}

static void look(struct seen *s, const char *name, const struct zf_map *m,
                 const struct zf_tensor *t0)
{
    const bool blob = !t0;
    const enum zf_dtype dtype = t0 ? t0->dtype : ZF_DT_COUNT;
    uint64_t shape = 0;

    for (uint32_t d = 0; t0 && d < t0->ndim; d++)
        shape = shape * 1000003 + t0->shape[d] + 1;
    if (s->now) {
        struct thing *t = need(realloc(s->now->at, (s->now->n + 1) * sizeof *t));
        struct zf_err err;

        s->now->at = t;
        t = &s->now->at[s->now->n++];
        *t = (struct thing){.name = need(strdup(name)),
                            .n = zf_map_size(m),
                            .shape = shape,
                            .dtype = dtype,
                            .blob = blob};
        t->p = need(malloc(t->n + 1));
        if (!zf_map_read(m, t->p, (size_t)t->n, 0, &err))
            complain("without faults", err.msg, name);
        return;
    }
    const struct thing *w = want_of(s->want, name);
    if (!w) {
        /* Degraded, ranks that cannot be joined have directories of their own, and what cannot be taken apart is shown as
         * it is described, without a byte of it. */
        if (s->strict || !s->told ||
            (strncmp(name, "mp_rank_", 8) != 0 && !lost_wholly(m) &&
             !look_elsewhere(s, name, m, dtype)))
            complain(s->how, "there is also", name);
        return;
    }
    s->found++;
    if (w->shape != shape)
        complain(s->how, "another shape of", name);
    else if (w->dtype == dtype)
        compare(s, m, w);
    else if (s->strict || !s->told)
        complain(s->how, "another type of", name);
    else
        look_moved(s, name, m, dtype);
}

static void look_at_all(struct seen *s)
{
    const struct zf_checkpoint *c = s->c;
    char name[2048];

    for (uint32_t k = 0; k < c->n_sets; k++) {
        for (uint32_t i = 0; i < c->set[k].n; i++) {
            const struct zf_tensor *t = &c->set[k].tensor[i];

            (void)snprintf(name, sizeof name, "%s|%s", c->set[k].path, t->name);
            look(s, name, t->data, t);
        }
    }
    for (uint32_t i = 0; i < c->n_blobs; i++) {
        (void)snprintf(name, sizeof name, "|%s", c->blob[i].path);
        look(s, name, c->blob[i].data, NULL);
    }
}

/* The notes that say something of this fault; missing tensors count as notes. */
static bool told(const struct zf_checkpoint *c, const struct things *want)
{
    if (c->n_missing)
        return true;
    for (uint32_t i = 0; i < c->n_notes; i++)
        if (!strstr(want->notes, c->note[i].text))
            return true;
    return false;
}

/* ---- one fault ----------------------------------------------------------------------------------- */

static struct zf_checkpoint *try_open(const char *path, bool degraded, struct zf_err *err)
{
    const struct zf_limits lim = zf_limits_default();
    const struct zf_open_opts o = {.lim = &lim, .degraded = degraded};

    zf_err_clear(err);
    zf_auto(store) struct zf_store *st = zf_store_dir(path, &lim, err);
    struct zf_checkpoint *c = st ? zf_open(st, &o, err) : NULL;

    if (c && !zf_store_unchanged(st, err)) {
        zf_checkpoint_free(c);
        c = NULL;
    }
    return c;
}

static void judge_refusal(const struct zf_err *err, const char *how, bool heap)
{
    char text[800];
    int exit = zf_err_exit(err);

    codes[exit & 15]++;
    if ((exit != 5 && exit != 4) || err->msg[0] == '\0' || (say_all && !heap)) {
        (void)printf("# %s: %s: exit %d: %s\n", where, how, exit,
                     zf_err_text(err, text, sizeof text));
    }
    bad += (exit != 4 && exit != 5) || err->msg[0] == '\0';
}

static void judge(const char *path, const struct things *want, const struct broken_plan *plan,
                  bool degraded)
{
    char how[400];
    struct zf_err err;

    if (plan->path) {
        (void)snprintf(how, sizeof how, "%s: %s of \"%s\" fails (%d)",
                       degraded ? "degraded" : "strict", broken_kind_name[plan->kind], plan->path,
                       plan->why);
    } else {
        (void)snprintf(how, sizeof how, "%s: call %ld%s fails (%d)",
                       degraded ? "degraded" : "strict", plan->at,
                       plan->kind == BROKEN_HEAP ? " of the heap" : "", plan->why);
    }
    complained = 0;
    broken_begin(plan);
    zf_auto(checkpoint) struct zf_checkpoint *c = try_open(path, degraded, &err);
    if (!c) {
        (void)broken_end();
        judge_refusal(&err, how, plan->kind == BROKEN_HEAP);
        return;
    }
    struct seen s = {.c = c, .want = want, .how = how, .strict = !degraded, .told = told(c, want)};
    if (plan->kind != BROKEN_HEAP)
        look_at_all(&s);
    (void)broken_end();
    codes[0]++;
    size_t now = s.found;
    s.found = 0;
    s.whole = !degraded;
    look_at_all(&s); /* all is well again */
    if (plan->kind == BROKEN_HEAP)
        now = s.found;
    if (now != want->n && !told(c, want)) {
        (void)snprintf(how + strlen(how), sizeof how - strlen(how), ": %zu of %zu", now, want->n);
        complain(how, "are there and nothing is said:", c->format);
    } else if (now != want->n && !degraded && plan->kind != BROKEN_HEAP) {
        for (size_t i = 0; i < want->n; i++) {
            const struct zf_set *set = NULL;
            char *bar = strchr(want->at[i].name, '|');

            if (want->at[i].blob)
                continue;
            *bar = '\0';
            set = zf_checkpoint_set(c, want->at[i].name);
            *bar = '|';
            if (!set || !zf_set_find(set, bar + 1, strlen(bar + 1)))
                complain(how, "lacks", want->at[i].name);
        }
    }
}

/* ---- all of them --------------------------------------------------------------------------------- */

static uint32_t draw_state;

/* One of `of`, always in the same order. */
static bool draw(long of)
{
    draw_state = draw_state * 1664525u + 1013904223u;
    return of <= 1 || (draw_state >> 8) % (unsigned long)of == 0;
}

/* Of a checkpoint that asks the heap so seldom, each call fails; and so do the first files and directories that are asked
 * for, by which the families tell whose it is. */
enum { SMALL_HEAP = 600, FIRST_POINTS = 16 };

static void all_faults(const char *path, long points, long calls, long heap)
{
    struct things want = {.at = NULL};
    const struct broken_point *point;
    struct zf_err err;
    char text[800];

    where = strstr(path, "data/") ? strstr(path, "data/") + 5 : path;
    broken_forget();
    broken_begin(NULL);
    zf_auto(checkpoint) struct zf_checkpoint *c = try_open(path, false, &err);
    const long n_heap = broken_heap_calls();
    if (!c) {
        (void)broken_end();
        complain("without faults", zf_err_text(&err, text, sizeof text), "");
        return;
    }
    struct seen s = {.c = c, .now = &want, .how = "without faults"};
    look_at_all(&s);
    const long n_calls = broken_calls();
    (void)broken_end();
    size_t len = 1;
    for (uint32_t i = 0; i < c->n_notes; i++)
        len += strlen(c->note[i].text) + 1;
    want.notes = need(calloc(len, 1));
    for (uint32_t i = 0; i < c->n_notes; i++)
        strcat(strcat(want.notes, c->note[i].text), "\n");
    size_t n_points = broken_points(&point);
    for (size_t i = 0; i < n_points; i++) {
        static const int why[2] = {EIO, EACCES};

        for (int k = 0; k < 4; k++) {
            const struct broken_plan plan = {
                .kind = point[i].kind, .why = why[k & 1], .path = point[i].path};

            if (i < FIRST_POINTS || draw(points ? (long)n_points * 4 / points : 1))
                judge(path, &want, &plan, k >> 1);
        }
    }
    for (long i = 1; i <= n_calls; i++) {
        if (draw(calls ? n_calls / calls : 1)) {
            judge(path, &want, &(struct broken_plan){.kind = BROKEN_OPEN, .why = EIO, .at = i},
                  i & 1);
        }
    }
    for (long i = 1; i <= n_heap; i++) {
        if (n_heap <= SMALL_HEAP || broken_heap_is_new(i) || draw(heap ? n_heap / heap : 1)) {
            judge(path, &want, &(struct broken_plan){.kind = BROKEN_HEAP, .why = ENOMEM, .at = i},
                  i & 1);
        }
    }
    things_free(&want);
}

static const char *const checkpoint[] = {
    "consolidated/fairscale0.4.13_llama3_w4",
    "dcp/dcp2.2.2_on_torch2.13/fsdp1_sharded_w2",
    "dcp/torch2.13/accelerate_fsdp2_save_state",
    "dcp/torch2.13/hf_dist_w2",
    "dcp/torch2.13/nocoll_w3",
    "dcp/torch2.13/odd_dtypes_1p",
    "dcp/torch2.13/torchtitan_full",
    "dcp/torch2.13/verl_fsdp2_w3",
    "dcp/torch2.13/zstd_1p",
    "deepspeed/ds0_18_9_zero2_zenflow_step0_w2",
    "deepspeed/ds0_19_8_autoep2_zero3_w4",
    "deepspeed/ds0_19_8_hftrainer_zero3_w2",
    "deepspeed/ds0_19_8_moe_ep2_zero2_w4",
    "deepspeed/ds0_19_8_peft_lora_zero3_w2",
    "deepspeed/ds0_19_8_pp2_tp2_zero1_info_w4",
    "deepspeed/ds0_19_8_pp2_zero0_w2",
    "deepspeed/ds0_19_8_zero0_fused_bf16",
    "deepspeed/ds0_19_8_zero3_exclfrozen_save16_w2",
    "deepspeed/ds0_19_8_zero3_nvme_swp_w2",
    "deepspeed/zero1_w2",
    "deepspeed/zero2_w2_universal",
    "deepspeed/zero3_w2",
    "deepspeed/zero3_w2_gather16",
    "hf/bin_sharded_llama",
    "hf/torchsave_legacy_views",
    "hf/torchsave_rezipped_deflate",
    "hf/torchsave_training_ckpt",
    "hf/transformers5.23.0_gpt2_sharded",
    "hf/transformers5.23.0_llama_tied_bf16_single",
    "megatron/megatron_torch_dist_core_v0.19.0_torch2.14",
    "megatron/nemo2_layout_core_0.12.3",
    "megatron/pypi_0.16.1_fsdp_dtensor_w3",
    "megatron/pypi_0.16.1_legacy_tp2pp2_glu",
    "megatron/pypi_0.17.1_dp3_fully_reshardable_padded",
    "megatron/pypi_0.19.2_legacy_tp2pp2vp2_distopt_buckets",
    "megatron/pypi_0.19.2_torch_dcp_w2",
    "megatron/pypi_0.5.0_zarr_pp2_bf16",
    "megatron/pypi_0.9.0_zarr_recoded_1",
    "megatron/run_folder_core_0.19.2",
    "olmo/pypi_0.6.0/full_safetensors",
    "olmo/pypi_0.6.0/local",
    "olmo/pypi_0.6.0/olmo_core",
    "olmo/pypi_core_2.4.0",
    "olmo/synthetic_local_torch2.0_w3",
    "olmo/torch2.14/fsdp_local",
    NULL,
};

int main(int argc, char **argv)
{
    const char *how = getenv("ZEROFS_FAULTS"), *data = getenv("ZF_DATA");
    bool all = how && strcmp(how, "all") == 0;
    char path[4096];
    int n = 0;

    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    say_all = getenv("ZEROFS_FAULTS_SAY") != NULL;
    for (int i = 0; argc > 1 ? i + 1 < argc : checkpoint[i] != NULL; i++) {
        unsigned before = bad;

        (void)snprintf(path, sizeof path, "%s/%s", data ? data : "tests/data", checkpoint[i]);
        draw_state = 1;
        all_faults(argc > 1 ? argv[i + 1] : path, all ? 0 : 30, all ? 0 : 15, all ? 20 : 10);
        (void)printf("%s %d - %s\n", bad == before ? "ok" : "not ok", ++n, where);
        (void)fflush(stdout);
    }
    (void)printf("1..%d\n# opened %u, exit 3: %u, 4: %u, 5: %u\n", n, codes[0], codes[3], codes[4],
                 codes[5]);
    return bad != 0;
}

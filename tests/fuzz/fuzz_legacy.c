/* SPDX-License-Identifier: Apache-2.0 */
/* A model of any sizes is cut over any mesh as Megatron cuts it, element by element; the join must find
 * each element where it came from.  Then one part is changed: whatever is joined then still has every
 * element of a tensor once. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#include "src/format/megatron/legacy/save.h"

#undef NDEBUG

#define MOST_PARTS 4096

struct input {
    const uint8_t *p;
    size_t n;
};

static uint32_t take(struct input *in, uint32_t below)
{
    uint32_t v = in->n > 0 ? *in->p : 0;

    in->p += in->n > 0;
    in->n -= in->n > 0;
    return v % below;
}

/* What the oracle knows of a part. */
struct truth {
    char whole[160];      /* its name when joined */
    uint64_t rows, cols;  /* of the whole */
    enum legacy_cut cut;  /* as it is here */
    uint32_t rank, ranks; /* that share it */
};

struct made {
    struct megatron_settings s;
    struct legacy_files files;
    struct legacy_part part[MOST_PARTS];
    struct truth truth[MOST_PARTS];
    uint64_t shape[MOST_PARTS][2];
    char name[MOST_PARTS][160];
    uint32_t n, chunks, stages;
    uint32_t layers[3][3]; /* of chunk and stage */
};

/* Which row of the whole is row i of the part? */
static uint64_t oracle_row(const struct truth *t, uint64_t i)
{
    uint64_t mine;

    switch (t->cut) {
    case LEGACY_ROWS:
        return t->rank * (t->rows / t->ranks) + i;
    case LEGACY_GATED:
        mine = t->rows / t->ranks / 2;
        return (i / mine) * (t->rows / 2) + t->rank * mine + i % mine;
    default:
        return i;
    }
}

static uint64_t oracle_col(const struct truth *t, uint64_t k)
{
    return t->cut == LEGACY_COLUMNS ? t->rank * (t->cols / t->ranks) + k : k;
}

struct piece {
    const char *local, *whole;
    enum legacy_cut cut;
    uint64_t rows, cols; /* cols 0: a vector */
    uint32_t rank, ranks;
};

static void add(struct made *m, uint32_t file, uint32_t chunk, struct piece x)
{
    uint32_t i = m->n++;
    uint64_t cut_rows = x.cut == LEGACY_ROWS || x.cut == LEGACY_GATED ? x.ranks : 1;

    assert(i < MOST_PARTS);
    (void)snprintf(m->name[i], sizeof m->name[i], "%s", x.local);
    m->truth[i] = (struct truth){.rows = x.rows,
                                 .cols = x.cols ? x.cols : 1,
                                 .cut = x.cut,
                                 .rank = x.rank,
                                 .ranks = x.ranks};
    (void)snprintf(m->truth[i].whole, sizeof m->truth[i].whole, "%s", x.whole);
    m->shape[i][0] = x.rows / cut_rows;
    m->shape[i][1] = x.cut == LEGACY_COLUMNS ? x.cols / x.ranks : x.cols;
    m->part[i] = (struct legacy_part){
        .name = m->name[i],
        .name_n = strlen(m->name[i]),
        .file = file,
        .chunk = chunk,
        .weight = {.key = LEGACY_WEIGHT,
                   .ref = {.dtype = ZF_DT_BF16, .ndim = x.cols ? 2 : 1, .shape = m->shape[i]}}};
}

static void add_layer(struct made *m, uint32_t file, uint32_t chunk, uint32_t local, uint32_t whole)
{
    const struct legacy_file *f = &m->files.file[file];
    uint32_t t = f->at.at[ZF_AXIS_TENSOR], tp = (uint32_t)m->s.tensor_model_parallel_size;
    uint64_t h = m->s.hidden_size, ffn = m->s.ffn_hidden_size;
    uint64_t glu = megatron_settings_gated(&m->s) ? 2 : 1;
    enum legacy_cut fc1 = glu == 2 ? LEGACY_GATED : LEGACY_ROWS;
    uint64_t qkv = (m->s.num_attention_heads + 2 * megatron_settings_groups(&m->s)) *
                   megatron_settings_head(&m->s);
    uint32_t each = (uint32_t)(m->s.num_experts / m->s.expert_model_parallel_size);
    const struct {
        const char *name;
        enum legacy_cut cut;
        uint64_t rows, cols;
    } row[] = {
        {"input_layernorm.weight", LEGACY_COPY, h, 0},
        {"self_attention.linear_qkv.weight", LEGACY_ROWS, qkv, h},
        {"self_attention.linear_qkv.bias", LEGACY_ROWS, qkv, 0},
        {"self_attention.linear_proj.weight", LEGACY_COLUMNS, h,
         m->s.num_attention_heads * megatron_settings_head(&m->s)},
        {"mlp.linear_fc1.weight", fc1, glu * ffn, h},
        {"mlp.linear_fc2.weight", LEGACY_COLUMNS, h, ffn},
    };
    char a[160], b[160];

    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        (void)snprintf(a, sizeof a, "decoder.layers.%u.%s", local, row[i].name);
        (void)snprintf(b, sizeof b, "decoder.layers.%u.%s", whole, row[i].name);
        add(m, file, chunk, (struct piece){a, b, row[i].cut, row[i].rows, row[i].cols, t, tp});
    }
    for (uint32_t e = 0; e < each; e++) {
        uint32_t global = f->at.at[ZF_AXIS_EXPERT] * each + e;

        (void)snprintf(a, sizeof a,
                       "decoder.layers.%u.mlp.experts.local_experts.%u.linear_fc1.weight", local,
                       e);
        (void)snprintf(b, sizeof b,
                       "decoder.layers.%u.mlp.experts.local_experts.%u.linear_fc1.weight", whole,
                       global);
        add(m, file, chunk,
            (struct piece){a, b, fc1, glu * ffn, h, f->expert_tensor, m->files.expert_tensor});
    }
}

static void add_file(struct made *m, uint32_t file)
{
    const struct legacy_file *f = &m->files.file[file];
    uint32_t p = f->at.at[ZF_AXIS_PIPELINE], t = f->at.at[ZF_AXIS_TENSOR], whole = 0;
    const char *emb = "embedding.word_embeddings.weight";

    if (p == 0) {
        add(m, file, 0,
            (struct piece){emb, emb, LEGACY_ROWS, m->s.padded_vocab_size, m->s.hidden_size, t,
                           (uint32_t)m->s.tensor_model_parallel_size});
    }
    for (uint32_t c = 0; c < m->chunks; c++) {
        for (uint32_t q = 0; q < m->stages; q++) {
            for (uint32_t k = 0; k < m->layers[c][q]; k++, whole++)
                if (q == p)
                    add_layer(m, file, c, k, whole);
        }
    }
}

/* The sizes; every one that is cut is a multiple of its ranks. */
static void make_sizes(struct made *m, struct input *in)
{
    struct megatron_settings *s = &m->s;
    uint32_t tp = 1u << take(in, 3), heads = tp * (1 + take(in, 2));

    s->tensor_model_parallel_size = tp;
    s->pipeline_model_parallel_size = m->stages = 1 + take(in, 3);
    s->expert_model_parallel_size = 1 + take(in, 3);
    s->expert_tensor_parallel_size = take(in, 2) ? tp : 1;
    if (s->expert_tensor_parallel_size == 1 && s->expert_model_parallel_size % tp != 0)
        s->expert_model_parallel_size = tp;
    m->chunks = 1 + take(in, 3);
    s->num_experts = take(in, 2) ? s->expert_model_parallel_size * (1 + take(in, 2)) : 0;
    s->num_attention_heads = heads;
    s->num_query_groups = take(in, 2) ? tp : heads;
    s->kv_channels = 1 + take(in, 2);
    s->hidden_size = 1 + take(in, 4);
    s->ffn_hidden_size = tp * (1 + take(in, 3));
    s->padded_vocab_size = tp * (1 + take(in, 3));
    s->swiglu = take(in, 2) ? MEGATRON_YES : MEGATRON_NO;
    for (uint32_t c = 0; c < m->chunks; c++) {
        for (uint32_t p = 0; p < m->stages; p++) {
            m->layers[c][p] = take(in, 3);
            s->num_layers += m->layers[c][p];
        }
    }
}

/* The folders, named as Megatron names them. */
static bool make_files(struct made *m, struct zf_arena *a, struct zf_err *err)
{
    uint32_t tp = (uint32_t)m->s.tensor_model_parallel_size;
    uint32_t ep = (uint32_t)m->s.expert_model_parallel_size;
    uint32_t etp = (uint32_t)m->s.expert_tensor_parallel_size;
    uint32_t most = etp * ep > tp ? etp * ep : tp;
    const char *missing;

    m->files.file = zf_arena_get(a, (uint64_t)most * m->stages, sizeof *m->files.file, err);
    assert(m->files.file);
    for (uint32_t p = 0; p < m->stages; p++) {
        for (uint32_t r = 0; r < most; r++) {
            struct legacy_file *f = &m->files.file[m->files.n++];

            f->dir = f->path = "mp_rank";
            f->number[f->n_numbers++] = r % tp;
            if (m->stages > 1)
                f->number[f->n_numbers++] = p;
            if (ep > 1)
                f->number[f->n_numbers++] = r / etp % ep;
        }
    }
    return legacy_files_arrange(&m->files, &m->s, a, &missing, err) && !missing;
}

/* Every element of a whole comes from one place of its parts; with `oracle`, from the right one. */
static void check_whole(const struct made *m, const struct legacy_whole *w, bool oracle)
{
    uint64_t rows = w->ndim > 0 ? w->shape[0] : 1, cols = w->ndim > 1 ? w->shape[1] : 1, left;
    bool *seen = calloc(rows * cols + 1, sizeof *seen);

    assert(seen);
    left = rows * cols;
    for (uint32_t k = 0; k < w->n_slots; k++) {
        const struct legacy_part *p = &m->part[w->slot[k] - 1];
        const struct truth *t = &m->truth[w->slot[k] - 1];
        struct legacy_box box;

        for (uint32_t b = 0; legacy_join_box(w, k, p->weight.ref.shape, b, &box); b++) {
            for (uint64_t i = 0; i < box.size[0]; i++) {
                for (uint64_t j = 0; j < box.size[1]; j++) {
                    uint64_t r = box.start[0] + i, c = box.start[1] + j;

                    assert(r < rows && c < cols && !seen[r * cols + c]);
                    seen[r * cols + c] = true;
                    left--;
                    assert(!oracle || (oracle_row(t, box.row + i) == r && oracle_col(t, j) == c));
                }
            }
        }
    }
    assert(left == 0);
    free(seen);
}

static bool join(struct made *m, struct zf_arena *a, bool oracle)
{
    struct zf_err err = {.code = ZF_OK};
    struct legacy_join j = {.a = a,
                            .files = &m->files,
                            .settings = &m->s,
                            .part = m->part,
                            .n_parts = m->n,
                            .n_chunks = m->chunks};
    bool ok = legacy_join(&j, &err);

    assert(ok || err.msg[0]);
    for (size_t i = 0; ok && i < j.whole.n; i++)
        check_whole(m, &j.whole.at[i], oracle);
    for (uint32_t i = 0; ok && oracle && i < m->n; i++) {
        const struct legacy_whole *w = &j.whole.at[m->part[i].whole];

        assert(strcmp(w->name, m->truth[i].whole) == 0);
        assert(w->shape[0] == m->truth[i].rows);
        assert(strcmp(m->truth[m->part[i].first].whole, w->name) == 0);
    }
    legacy_join_fini(&j);
    return ok;
}

/* One part is not what it was. */
static void change(struct made *m, struct input *in)
{
    uint32_t i = (take(in, 256) * 256 + take(in, 256)) % m->n;
    struct legacy_part *p = &m->part[i];

    switch (take(in, 6)) {
    case 0:
        m->shape[i][take(in, p->weight.ref.ndim)] = take(in, 9);
        break;
    case 1:
        m->name[i][take(in, (uint32_t)p->name_n)] = (char)('0' + take(in, 12));
        break;
    case 2:
        p->weight.ref.dtype = ZF_DT_F32;
        break;
    case 3:
        p->attr = LEGACY_ATTR_CUT;
        p->attr_dim = take(in, 2);
        break;
    case 4:
        m->s.num_layers += 1;
        break;
    default:
        p->weight.ref.ndim = take(in, 3);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct zf_err err = {.code = ZF_OK};
    zf_auto(arena) struct zf_arena *a = zf_arena_new(64u << 20, &err);
    zf_auto(mem) struct made *m = calloc(1, sizeof *m);

    assert(a && m);
    make_sizes(m, &in);
    if (!make_files(m, a, &err))
        abort(); /* it is as Megatron writes it */
    for (uint32_t i = 0; i < m->files.n; i++)
        add_file(m, i);
    if (!join(m, a, true))
        abort();
    if (m->n > 0) {
        change(m, &in);
        (void)join(m, a, false);
    }
    return 0;
}

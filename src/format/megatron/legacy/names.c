/* SPDX-License-Identifier: Apache-2.0 */
/* The sharding of a parameter is not recorded with the model's tensors; it is a property of the module,
 * so only names in the table (names.def) are joined. */
#include "save.h"

#include <string.h>

enum names_where { NAMES_TOP, NAMES_LAYER, NAMES_MTP };

/* A size of the joined tensor. */
enum names_size {
    SIZE_NONE,
    SIZE_ANY,
    SIZE_ONE,
    SIZE_HIDDEN,
    SIZE_HIDDEN_TWICE,
    SIZE_VOCAB,
    SIZE_HEAD,
    SIZE_HEADS,
    SIZE_KV,
    SIZE_QKV,
    SIZE_ATTENTION,
    SIZE_FFN,
    SIZE_MOE_FFN,
    SIZE_GROUPED_FC1,
    SIZE_GROUPED_FC2,
    SIZE_SHARED_FFN,
    SIZE_EXPERTS,
    SIZE_Q_NORM,
    SIZE_Q_LORA,
    SIZE_KV_LORA,
    SIZE_MLA_Q,
    SIZE_MLA_KV_DOWN,
    SIZE_MLA_KV,
};

struct names_row {
    enum names_where where;
    const char *name;
    enum legacy_cut cut;
    enum names_size size[2];
};

static const struct names_row names_table[] = {
#define ROW(where, name, cut, rows, columns)                                                       \
    {NAMES_##where, name, LEGACY_##cut, {SIZE_##rows, SIZE_##columns}},
#include "names.def"
};

/* ---- sizes ---- */

/* Products cannot overflow: factors are at most 2^30 and 2^26 (sums of two up to about 2^24). */
static uint64_t names_attention_size(enum names_size z, const struct megatron_settings *s)
{
    uint64_t heads = s->num_attention_heads, head = megatron_settings_head(s);
    uint64_t groups = megatron_settings_groups(s);
    bool mla = s->multi_latent_attention == MEGATRON_YES;
    bool gate = s->attention_output_gate == MEGATRON_YES;

    switch (z) {
    case SIZE_HEAD:
        return head;
    case SIZE_HEADS:
        return heads * head;
    case SIZE_KV:
        return 2 * groups * head;
    case SIZE_QKV:
        return ((gate ? 2 : 1) * heads + 2 * groups) * head;
    case SIZE_ATTENTION:
        return heads * (mla ? s->v_head_dim : head);
    case SIZE_Q_NORM:
        return mla ? s->q_lora_rank : head;
    case SIZE_Q_LORA:
        return s->q_lora_rank;
    case SIZE_KV_LORA:
        return s->kv_lora_rank;
    case SIZE_MLA_Q:
        return s->qk_head_dim ? heads * (s->qk_head_dim + s->qk_pos_emb_head_dim) : 0;
    case SIZE_MLA_KV_DOWN:
        return s->kv_lora_rank ? s->kv_lora_rank + s->qk_pos_emb_head_dim : 0;
    case SIZE_MLA_KV:
        return s->qk_head_dim && s->v_head_dim ? heads * (s->qk_head_dim + s->v_head_dim) : 0;
    default:
        return 0;
    }
}

static uint64_t names_size_of(enum names_size z, const struct megatron_settings *s)
{
    switch (z) {
    case SIZE_ONE:
        return 1;
    case SIZE_HIDDEN:
        return s->hidden_size;
    case SIZE_HIDDEN_TWICE:
        return 2 * s->hidden_size;
    case SIZE_VOCAB:
        return s->padded_vocab_size;
    case SIZE_FFN:
        return s->ffn_hidden_size;
    case SIZE_MOE_FFN:
        return megatron_settings_moe_ffn(s);
    case SIZE_GROUPED_FC1:
        return s->num_experts * megatron_settings_moe_ffn(s) * (megatron_settings_gated(s) ? 2 : 1);
    case SIZE_GROUPED_FC2:
        return s->num_experts * megatron_settings_moe_ffn(s);
    case SIZE_SHARED_FFN:
        return s->moe_shared_expert_intermediate_size;
    case SIZE_EXPERTS:
        return s->num_experts;
    default:
        return names_attention_size(z, s);
    }
}

/* ---- names ---- */

static size_t names_digits(const char *p, size_t n, uint64_t *out)
{
    size_t k = 0;

    for (*out = 0; k < n && k < 8 && p[k] >= '0' && p[k] <= '9'; k++)
        *out = 10 * *out + (uint64_t)(p[k] - '0');
    /* "007" would be a second name of layer 7 */
    return k < n && p[k] >= '0' && p[k] <= '9' ? 0 : k > 1 && p[0] == '0' ? 0 : k;
}

/* Does p[n] match the pattern?  The number at a '#' is stored in out. */
static bool names_fits(const char *pattern, const char *p, size_t n, struct legacy_name *out)
{
    size_t i = 0;

    for (; *pattern; pattern++) {
        if (*pattern == '#') {
            out->expert_n = names_digits(p + i, n - i, &out->expert);
            out->expert_at = i;
            i += out->expert_n;
            if (out->expert_n == 0)
                return false;
        } else if (i == n || p[i++] != *pattern) {
            return false;
        }
    }
    return i == n;
}

static bool names_find(enum names_where where, const char *p, size_t n,
                       const struct megatron_settings *s, struct legacy_name *out)
{
    for (size_t i = 0; i < sizeof names_table / sizeof names_table[0]; i++) {
        const struct names_row *row = &names_table[i];

        out->expert_at = out->expert_n = 0;
        out->expert = 0;
        if (row->where != where || !names_fits(row->name, p, n, out))
            continue;
        out->cut = row->cut;
        for (out->ndim = 0; out->ndim < 2 && row->size[out->ndim] != SIZE_NONE; out->ndim++)
            out->shape[out->ndim] = names_size_of(row->size[out->ndim], s);
        if (out->cut == LEGACY_GATED && megatron_settings_gated(s))
            out->shape[0] *= 2;
        else if (out->cut == LEGACY_GATED)
            out->cut = LEGACY_ROWS;
        return true;
    }
    return false;
}

static const char *const names_stacks[LEGACY_STACKS] = {
    "decoder.layers.",
    "encoder.layers.",
    "mtp.layers.",
    "language_model.encoder.layers.",
    "language_model.decoder.layers.",
    "language_model.transformer.layers.",
};

int legacy_names_final(const char *p, size_t n)
{
    static const char layers[] = "layers.";

    for (int i = 0; i < LEGACY_STACKS; i++) {
        size_t len = strlen(names_stacks[i]) - (sizeof layers - 1);

        if (n > len && memcmp(p, names_stacks[i], len) == 0 &&
            (strncmp(p + len, "final_layernorm.", 16) == 0 ||
             strncmp(p + len, "final_norm.", 11) == 0))
            return i;
    }
    return -1;
}

/* Parses "<stack>N." at the start of a name; returns its length, 0 = there is none. */
static size_t names_take_layer(const char *p, size_t n, struct legacy_name *out)
{
    for (size_t i = 0; i < LEGACY_STACKS; i++) {
        size_t len = strlen(names_stacks[i]);

        if (n <= len || memcmp(p, names_stacks[i], len) != 0)
            continue;
        out->layer_n = names_digits(p + len, n - len, &out->layer);
        out->stack = (struct legacy_text){names_stacks[i], len};
        out->stack_id = (uint32_t)i;
        out->mtp = i == LEGACY_MTP;
        len += out->layer_n;
        return out->layer_n > 0 && len < n && p[len] == '.' ? len + 1 : 0;
    }
    return 0;
}

bool legacy_names_parse(const char *p, size_t n, const struct megatron_settings *s,
                        struct legacy_name *out)
{
    static const char *const inner[] = {"transformer_layer.", "mtp_model_layer."};
    size_t at;

    *out = (struct legacy_name){0};
    at = names_take_layer(p, n, out);
    if (at == 0)
        return out->stack.n == 0 && names_find(NAMES_TOP, p, n, s, out);
    if (out->mtp && names_find(NAMES_MTP, p + at, n - at, s, out))
        return true;
    for (size_t i = 0; out->mtp && i < 2; i++) {
        size_t len = strlen(inner[i]);

        if (n - at > len && memcmp(p + at, inner[i], len) == 0) {
            at += len;
            break;
        }
    }
    if (!names_find(NAMES_LAYER, p + at, n - at, s, out))
        return false;
    out->expert_at += out->expert_n ? at : 0;
    return true;
}

const char *legacy_names_tied(const char *p, size_t n)
{
    static const char *const tied[][2] = {
        {"output_layer.weight", "embedding.word_embeddings.weight"},
        {"language_model.output_layer.weight", "language_model.embedding.word_embeddings.weight"},
        {"word_embeddings_for_head.weight", "language_model.embedding.word_embeddings.weight"},
    };

    for (size_t i = 0; i < sizeof tied / sizeof tied[0]; i++)
        if (strlen(tied[i][0]) == n && memcmp(p, tied[i][0], n) == 0)
            return tied[i][1];
    return NULL;
}

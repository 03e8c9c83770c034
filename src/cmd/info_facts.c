/* SPDX-License-Identifier: Apache-2.0 */
/* The facts in the document of zerofs info: all are recorded in the checkpoint or counted. */
#include "info.h"

#include <stdlib.h>
#include <string.h>

#include <zf/base/name.h>
#include <zf/base/num.h>
#include <zf/codec/json.h>
#include <zf/find.h>
#include <zf/inspect/refer.h>

#include "where.h"

/* Loads a JSON file of the tree; NULL: it does not exist or is not JSON.  Files below state/ are in memory. */
static json_t *facts_load(const struct zf_checkpoint *c, const char *path, const struct opts *o)
{
    const struct zf_blob *b = zf_checkpoint_blob(c, path);
    const uint64_t n = b ? zf_map_size(b->data) : 0;
    zf_auto(mem) char *text = n > 0 && n <= o->lim.json_bytes ? malloc(n) : NULL;
    struct zf_err ignored;

    return text && zf_map_read(b->data, text, n, 0, &ignored)
               ? zf_json_load(text, n, &o->lim, &ignored)
               : NULL;
}

/* Does the same for a file that is a single number or string, which the parser accepts only inside an array. */
static json_t *facts_value(const struct zf_checkpoint *c, const char *path, const struct opts *o)
{
    const struct zf_blob *b = zf_checkpoint_blob(c, path);
    const uint64_t n = b ? zf_map_size(b->data) : 0;
    char text[258] = "[";
    struct zf_err ignored;

    if (n == 0 || n > sizeof text - 2 || !zf_map_read(b->data, text + 1, n, 0, &ignored))
        return NULL;
    text[n + 1] = ']';
    zf_auto(json) json_t *list = zf_json_load(text, n + 2, &o->lim, &ignored);
    return json_incref(json_array_get(list, 0));
}

/* ---- who wrote it ------------------------------------------------------------------------------ */

/* "DeepSpeed ZeRO-N", with the stage configured in ds_config.json, if there is one. */
static json_t *facts_deepspeed(const struct zf_checkpoint *c, const struct opts *o)
{
    zf_auto(json) json_t *config = facts_load(c, "state/ds_config.json", o);
    const json_t *stage = json_object_get(json_object_get(config, "zero_optimization"), "stage");
    char text[32];

    (void)snprintf(text, sizeof text, "DeepSpeed ZeRO-%d", (int)json_integer_value(stage));
    return json_string(json_is_integer(stage) ? text : "DeepSpeed");
}

static json_t *facts_family(const struct zf_checkpoint *c, const struct opts *o)
{
    static const struct {
        const char *format, *name;
    } known[] = {{"dcp", "torch.distributed.checkpoint"},
                 {"consolidated", "consolidated.NN.pth"},
                 {"hf", "Hugging Face"},
                 {"megatron", "Megatron"},
                 {"olmo", "OLMo"},
                 {"ranks", "a file a rank"},
                 {"torch", "torch.save"}};

    if (strcmp(c->format, "deepspeed") == 0)
        return facts_deepspeed(c, o);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(c->format, known[i].format) == 0)
            return json_string(known[i].name);
    return json_string(c->format);
}

/* Files in which trainers record their settings; in Megatron's common.json they are the member "args". */
static const char *const facts_settings[] = {"state/args.json", "state/common.json",
                                             "state/train.json"};

static void facts_take(json_t *to, const char *name, const json_t *from, const char *key,
                       json_int_t least)
{
    const json_t *v = json_object_get(from, key);

    if (json_is_integer(v) && json_integer_value(v) >= least && !json_object_get(to, name))
        (void)json_object_set_new(to, name, json_integer(json_integer_value(v)));
}

static void facts_add_parallel(json_t *to, const struct zf_checkpoint *c, const struct opts *o)
{
    zf_auto(json) json_t *dims = facts_load(c, "state/checkpoint_parallel_dimensions.json", o);

    facts_take(to, "tp", dims, "tp_degree", 2);
    facts_take(to, "pp", dims, "pp_degree", 2);
    for (size_t i = 0; i < sizeof facts_settings / sizeof facts_settings[0]; i++) {
        zf_auto(json) json_t *all = facts_load(c, facts_settings[i], o);
        const json_t *one = json_is_array(all) ? json_array_get(all, 0) : all;
        const json_t *args = json_object_get(one, "args") ? json_object_get(one, "args") : one;

        facts_take(to, "world", args, "world_size", 1);
        facts_take(to, "tp", args, "tensor_model_parallel_size", 2);
        facts_take(to, "pp", args, "pipeline_model_parallel_size", 2);
        facts_take(to, "ep", args, "expert_model_parallel_size", 2);
    }
}

/* torch.distributed.checkpoint: rank R wrote "__R_0.distcp" and so on (_FileSystemWriter, filesystem.py). */
static void facts_note_rank(void *ctx, const struct zf_file_stats *s)
{
    const char *slash = strrchr(s->path, '/'), *name = slash ? slash + 1 : s->path;
    const size_t n = strncmp(name, "__", 2) == 0 ? strspn(name + 2, "0123456789") : 0;
    uint64_t *ranks = ctx;

    if (n > 0 && n < 8 && name[2 + n] == '_' && strstr(name, ".distcp")) {
        const uint64_t rank = strtoul(name + 2, NULL, 10);

        *ranks = rank < *ranks ? *ranks : rank + 1;
    }
}

/* The number of ranks: DeepSpeed records the sizes of the data- and model-parallel groups, whose product it is.  If
 * nothing is recorded, ranks are counted by file names. */
static json_t *facts_ranks(json_t *parallel, const struct zf_checkpoint *c, const struct opts *o)
{
    zf_auto(json) json_t *data = facts_value(c, "state/dp_world_size.json", o);
    zf_auto(json) json_t *model = facts_value(c, "state/mp_world_size.json", o);
    json_t *world = json_incref(json_object_get(parallel, "world"));
    uint64_t d, m;

    (void)json_object_del(parallel, "world");
    if (zf_json_u64(data, &d) && zf_json_u64(model, &m) && d > 0 && m > 0 && d <= UINT32_MAX &&
        m <= UINT32_MAX / d) {
        json_decref(world);
        return json_integer((json_int_t)(d * m));
    }
    uint64_t named = 0;
    if (!world)
        zf_store_stats(c->store, facts_note_rank, &named);
    return named ? json_integer((json_int_t)named) : world;
}

uint64_t info_facts_ranks(const struct zf_checkpoint *c, const struct opts *o)
{
    zf_auto(json) json_t *parallel = json_object();
    uint64_t n = 0;

    facts_add_parallel(parallel, c, o);
    zf_auto(json) json_t *ranks = facts_ranks(parallel, c, o);
    return zf_json_u64(ranks, &n) ? n : 0;
}

static void facts_add_version(json_t *to, const char *name, const json_t *text)
{
    if (json_is_string(text) && json_string_length(text) > 0 && json_string_length(text) < 64)
        (void)json_object_set_new(to, name, zf_json_text(json_string_value(text)));
}

static json_t *facts_versions(const struct zf_checkpoint *c, const struct opts *o)
{
    zf_auto(json) json_t *ds = facts_value(c, "state/ds_version.json", o);
    zf_auto(json) json_t *config = facts_load(c, "config.json", o);
    json_t *to = json_object();

    facts_add_version(to, "DeepSpeed", ds);
    facts_add_version(to, "transformers", json_object_get(config, "transformers_version"));
    return to;
}

/* ---- tensors ----------------------------------------------------------------------------------- */

struct facts_tally {
    uint64_t tensors, elems, tied;
    uint64_t of_type[ZF_DT_COUNT]; /* bytes */
};

static json_t *facts_types(const struct facts_tally *t)
{
    json_t *types = json_object();

    for (int d = 0; d < ZF_DT_COUNT; d++) {
        if (t->of_type[d]) {
            (void)json_object_set_new(types, zf_dtype_info((enum zf_dtype)d)->suffix,
                                      json_integer((json_int_t)t->of_type[d]));
        }
    }
    return types;
}

static void facts_count(struct facts_tally *t, const struct zf_tensor *x)
{
    uint64_t n;

    if (zf_elems(x->ndim, x->shape, &n)) {
        t->tensors++;
        t->elems += n;
        t->of_type[x->dtype] += zf_map_size(x->data);
    }
}

static bool facts_is_integer(enum zf_dtype d)
{
    const char kind = zf_dtype_info(d)->kind;

    return kind == 'i' || kind == 'u' || kind == 'b';
}

/* The names that a file lists, as keys of an object. */
static json_t *facts_names(const struct zf_checkpoint *c, const char *path, const struct opts *o)
{
    zf_auto(json) json_t *list = facts_load(c, path, o);
    json_t *names = json_object(), *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        if (json_is_string(one))
            (void)json_object_set_new(names, json_string_value(one), json_true());
    }
    return names;
}

/* The path relative to the root or, if model-parallel ranks are shown separately, to mp_rank_NN; NULL: not in one. */
static const char *facts_below(const struct zf_checkpoint *c, const char *path)
{
    const size_t n = strcspn(path, "/");

    if (zf_checkpoint_set(c, ""))
        return path;
    return strncmp(path, "mp_rank_", 8) != 0 ? NULL : path + n + (path[n] == '/');
}

/* Counts each parameter once: no ties, no recorded buffers, no integers, which are not trained.  Without a root
 * set, counts the parameters of every rank. */
static json_t *facts_weights(const struct zf_checkpoint *c, const struct opts *o)
{
    zf_auto(json) json_t *buffers = facts_names(c, "state/buffer_names.json", o);
    zf_auto(json) json_t *frozen = facts_load(c, "state/frozen_param_shapes.json", o);
    struct facts_tally param = {0}, still = {0};
    uint64_t n_buffers = 0, n_integers = 0, n_ranks = 0;

    for (uint32_t k = 0; k < c->n_sets; k++) {
        const struct zf_set *s = &c->set[k];
        const char *path = facts_below(c, s->path);

        if (!path || *path)
            continue;
        n_ranks += *s->path != '\0';
        for (uint32_t i = 0; i < s->n; i++) {
            const struct zf_tensor *x = &s->tensor[i];

            if (x->apart)
                continue;
            if (x->alias_of != i) {
                param.tied++;
            } else if (json_object_get(buffers, x->name)) {
                n_buffers++;
            } else if (facts_is_integer(x->dtype)) {
                n_integers++;
            } else {
                facts_count(&param, x);
                if (json_object_get(frozen, x->name))
                    facts_count(&still, x);
            }
        }
    }
    return json_pack("{s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:o}", "by_rank",
                     (json_int_t)n_ranks, "parameters", (json_int_t)param.elems, "tensors",
                     (json_int_t)param.tensors, "bytes", facts_types(&param), "tied",
                     (json_int_t)param.tied, "buffers", (json_int_t)n_buffers, "integers",
                     (json_int_t)n_integers, "frozen", (json_int_t)still.tensors, "frozen_bytes",
                     facts_types(&still));
}

static void facts_add_once(json_t *list, const char *text)
{
    json_t *new = zf_json_text(text), *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        if (json_equal(one, new)) {
            json_decref(new);
            return;
        }
    }
    (void)json_array_append_new(list, new);
}

/* Lists the sets optim/NAME.  The optimizer's class is recorded only if the framework created it from its settings. */
static json_t *facts_optimizer(const struct zf_checkpoint *c, const struct opts *o)
{
    zf_auto(json) json_t *config = facts_load(c, "state/ds_config.json", o);
    const json_t *type = json_object_get(json_object_get(config, "optimizer"), "type");
    struct facts_tally all = {0};
    json_t *states = json_array();

    for (uint32_t i = 0; i < c->n_sets; i++) {
        const struct zf_set *s = &c->set[i];
        const char *path = facts_below(c, s->path);

        if (!path || strncmp(path, "optim/", 6) != 0)
            continue;
        facts_add_once(states, path + 6);
        for (uint32_t k = 0; k < s->n; k++)
            if (s->tensor[k].alias_of == k)
                facts_count(&all, &s->tensor[k]);
    }
    if (json_array_size(states) == 0) {
        json_decref(states);
        return json_null();
    }
    return json_pack("{s:o?, s:o, s:o}", "class",
                     json_is_string(type) ? zf_json_text(json_string_value(type)) : NULL, "states",
                     states, "bytes", facts_types(&all));
}

/* ---- files ------------------------------------------------------------------------------------- */

/* The offset of an archive's member is only known after its header was read, which takes a request each at an address:
 * null there. */
static json_t *facts_shards(const char *path, const struct zf_checkpoint *c)
{
    zf_refer_list file = {0};
    uint64_t bytes = 0;
    struct zf_err ignored;
    json_t *j = NULL;

    if (where_is_remote(path))
        return json_null();
    if (zf_refer_files(c, &file, &ignored)) {
        for (size_t i = 0; i < file.n; i++)
            bytes += file.at[i]->size;
        j = json_pack("{s:I, s:I}", "files", (json_int_t)file.n, "bytes", (json_int_t)bytes);
    }
    zf_vec_fini(&file);
    return j;
}

/* Other saves next to the one that was opened, by their names. */
static json_t *facts_saves(const char *path, const struct zf_checkpoint *c)
{
    struct zf_saves saves = {.at = NULL};
    struct zf_err ignored;
    bool newest = true;

    if (!*c->tag || where_is_remote(path) ||
        !zf_saves_list(c->store, ZF_SAVES_NAMED, NULL, &saves, &ignored))
        return json_null();
    for (size_t i = 0; i < saves.n; i++) {
        const char *name = saves.at[i].path;

        newest = newest && zf_name_cmp(name, strlen(name), c->tag, strlen(c->tag)) <= 0;
    }
    json_t *j = saves.n > 1
                    ? json_pack("{s:I, s:b}", "n", (json_int_t)saves.n, "newest", (int)newest)
                    : json_null();
    zf_saves_free(&saves);
    return j;
}

/* ---- damage ------------------------------------------------------------------------------------ */

/* The most byte ranges of a tensor that are added up; a box of columns has one per row. */
#define MOST_RANGES 4096
/* The most files (or reasons, if no file is known) that are listed separately. */
#define MOST_DAMAGED 256

static json_t *facts_damaged_file(json_t *list, const struct zf_lost *how)
{
    json_t *one, *file = zf_json_text(how->file);
    size_t i;

    json_array_foreach(list, i, one)
    {
        if (i + 1 == MOST_DAMAGED ||
            (json_equal(json_object_get(one, "file"), file) &&
             (*how->file ||
              strcmp(json_string_value(json_object_get(one, "why")), how->why) == 0))) {
            json_decref(file);
            return one;
        }
    }
    const bool others = json_array_size(list) + 1 == MOST_DAMAGED;
    one = json_pack("{s:o, s:o, s:i, s:i, s:b}", "file", file, "why",
                    zf_json_text(others ? "and more files" : how->why), "tensors", 0, "bytes", 0,
                    "at_least", 0);
    return json_array_append_new(list, one) == 0 ? one : NULL;
}

static void facts_grow(json_t *one, const char *key, uint64_t by)
{
    json_t *n = json_object_get(one, key);

    (void)json_integer_set(n, json_integer_value(n) + (json_int_t)by);
}

static void facts_add_losses(json_t *list, const struct zf_tensor *t)
{
    const json_t *last = NULL;
    struct zf_loss loss = {.end = 0};

    for (uint32_t n = 0; zf_map_loss(t->data, loss.end, &loss); n++) {
        json_t *one = facts_damaged_file(list, &loss.how);

        facts_grow(one, "tensors", one != last);
        facts_grow(one, "bytes", loss.end - loss.first);
        last = one;
        if (n == MOST_RANGES) {
            (void)json_object_set_new(one, "at_least", json_true());
            return;
        }
    }
}

/* Lists the files whose damage cost tensors bytes, over all sets; counts a tied tensor once. */
static json_t *facts_damage(const struct zf_checkpoint *c)
{
    json_t *list = json_array();

    for (uint32_t s = 0; s < c->n_sets; s++) {
        for (uint32_t i = 0; i < c->set[s].n; i++) {
            const struct zf_tensor *t = &c->set[s].tensor[i];

            if (t->lost && t->alias_of == i)
                facts_add_losses(list, t);
        }
    }
    for (uint32_t i = 0; i < c->n_missing; i++)
        facts_grow(facts_damaged_file(list, &c->missing[i].how), "tensors", 1);
    return list;
}

/* ---- what to type ------------------------------------------------------------------------------ */

static void facts_add_remedy(json_t *list, const char *why, const char *type)
{
    (void)json_array_append_new(list, json_pack("{s:o, s:o?}", "why", zf_json_text(why), "type",
                                                *type ? zf_json_text(type) : NULL));
}

/* The length of the first component, with its dot, if all names share it; 0: they do not, or a number follows. */
static size_t facts_prefix(const struct zf_set *s)
{
    const char *dot = s && s->n > 1 ? strchr(s->tensor[0].name, '.') : NULL;
    size_t n = dot ? (size_t)(dot - s->tensor[0].name) + 1 : 0;

    for (uint32_t i = 0; n && i < s->n; i++) {
        const char *name = s->tensor[i].name;

        if (strncmp(name, s->tensor[0].name, n) != 0 || !name[n] ||
            (name[n] >= '0' && name[n] <= '9'))
            n = 0;
    }
    return n;
}

/* Adds why no recipe made hf/ (a note says it); without a recipe, hf/ has Megatron's own names. */
static void facts_add_recipe(json_t *list, const char *path, const struct zf_checkpoint *c)
{
    char type[300];

    for (uint32_t i = 0; i < c->n_notes; i++) {
        if (c->note[i].kind == ZF_NOTE_HF) {
            facts_add_remedy(list, c->note[i].text, "");
            return;
        }
    }
    if (strcmp(c->format, "megatron") == 0 && !c->hf) {
        (void)snprintf(type, sizeof type, "zerofs recipes %.250s", path);
        facts_add_remedy(list, "hf/ has Megatron's names, no recipe fits", type);
    }
}

static json_t *facts_remedies(const char *path, const struct zf_checkpoint *c)
{
    const struct zf_set *root = zf_checkpoint_set(c, "");
    const bool model = root && root->n > 0;
    json_t *list = json_array();
    char why[160], type[160];
    const size_t n = facts_prefix(root);

    if (model)
        facts_add_recipe(list, path, c);
    if (model && !c->hf && !zf_checkpoint_blob(c, "config.json") &&
        !zf_checkpoint_blob(c, "hf/config.json")) {
        facts_add_remedy(list, "hf/ lacks config.json", "-o side=DIR");
        if (n > 0 && n < 60) {
            (void)snprintf(why, sizeof why, "all names begin with \"%.*s\"", (int)n,
                           root->tensor[0].name);
            (void)snprintf(type, sizeof type, "-o strip_prefix=%.*s", (int)n, root->tensor[0].name);
            facts_add_remedy(list, why, type);
        }
    }
    return list;
}

/* ---- all --------------------------------------------------------------------------------------- */

void info_facts_add(json_t *j, const char *path, const struct zf_checkpoint *c,
                    const struct opts *o)
{
    json_t *parallel = json_object();
    const bool dated = c->mtime.tv_sec > 0;

    (void)json_object_set_new(j, "family", facts_family(c, o));
    facts_add_parallel(parallel, c, o);
    json_t *ranks = facts_ranks(parallel, c, o);
    (void)json_object_set_new(j, "ranks", ranks ? ranks : json_null());
    (void)json_object_set_new(j, "parallel", parallel);
    (void)json_object_set_new(j, "versions", facts_versions(c, o));
    (void)json_object_set_new(j, "written",
                              dated ? json_integer((json_int_t)c->mtime.tv_sec) : json_null());
    (void)json_object_set_new(j, "weights", facts_weights(c, o));
    (void)json_object_set_new(j, "optimizer", facts_optimizer(c, o));
    (void)json_object_set_new(j, "shards", facts_shards(path, c));
    (void)json_object_set_new(j, "saves", facts_saves(path, c));
    (void)json_object_set_new(j, "damage", facts_damage(c));
    (void)json_object_set_new(j, "remedies", facts_remedies(path, c));
}

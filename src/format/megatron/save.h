/* SPDX-License-Identifier: Apache-2.0 */
/* A save of Megatron-core between the files and the tree.  Whatever wrote it (torch_dist, zarr,
 * Megatron-FSDP), its tensors are one list, in three steps:
 *
 *  1. A backend fills `tensor` and `object`: what is stored, under the keys as stored.  Each tensor is a
 *     hidden draft (zf_build_hidden), in its true shape, with all of its pieces.
 *  2. What the tensors are to the user is a list of parameters: slices of stacked tensors, what is found
 *     in flat buffers, what is joined of several (`param`).
 *  3. place.c shows both: parameters in the root, stored/ and optim/, stacked tensors in stacked/, flat
 *     buffers in bucket/.
 *
 * Everything lives in the arena, or in what a backend keeps open as long as the save. */
#ifndef FORMAT_MEGATRON_SAVE_H
#define FORMAT_MEGATRON_SAVE_H

#include <zf/base/arena.h>
#include <zf/base/sorted.h>
#include <zf/base/vec.h>
#include <zf/codec/torch.h>
#include <zf/model/build.h>

#include "keys.h"
#include "settings.h"

/* A tensor as it is stored. */
struct mg_tensor {
    const char *key; /* any bytes; terminated */
    size_t key_len;
    struct mg_key name;     /* what the key means */
    struct zf_draft *draft; /* hidden */
    struct zf_type type;    /* the draft's */
    /* [ndim] into how many chunks of one size each dimension is cut, the last of which may be smaller:
     * what one rank held is such a chunk.  NULL: not known, or no regular grid. */
    const uint64_t *cuts;
    uint64_t order; /* place in .metadata; MG_NONE where keys have no order (zarr) */
    bool sliced;    /* its axis of layers, or of experts, was found: it goes to stacked/ */
};

/* An opaque one: ShardedObject, random numbers' state. */
struct mg_object {
    const char *key; /* as in .metadata: "rng_state/shard_0.1_1.2" */
    size_t key_len;
    struct mg_key name;
    struct zf_source *src; /* its exact bytes, a torch.save file; a reference that the save owns */
    bool in_state;         /* already shown in state/NAME.json */
    uint32_t part;         /* number of the directory in `dir` of the save */
};

/* A parameter, or a value of its state, as the user wants to see it. */
struct mg_param {
    struct mg_text state; /* n = 0: the weight as stored; else "exp_avg", or a master's */
    struct mg_text name;  /* with the numbers of layer and expert */
    struct zf_type type;
    struct zf_draft *of; /* its elements are those of this hidden draft from `first` on */
    uint64_t first;
    const struct mg_tensor *from; /* the tensor that it is a slice of, or all of; else NULL */
    bool unverified;    /* fp32 master with no weight to compare with; shown in optim/param */
    bool is_part;       /* piece of a joined parameter (W of W+V) that is listed as well */
    const size_t *part; /* [n_parts] that one: numbers in the list, one part behind the other */
    uint32_t n_parts;   /* 0 = it is stored in one */
};

/* Directories that one save can be in: verl's model/, optimizer/, extra/, and one to spare. */
enum { MG_DIRS = 4, MG_DIR_MAX = 128 };

struct mg_save {
    struct zf_store *st;
    /* Where the backend's files are, seen from st: "", or each with metadata.json and all that belongs to it. */
    char dir[MG_DIRS][MG_DIR_MAX];
    uint32_t n_dirs;
    bool in_parts; /* verl's: the directories have names */
    const struct zf_limits *lim;
    struct zf_build *b;
    struct zf_arena *arena;
    zf_vec(struct mg_tensor) tensor;
    zf_vec(struct mg_object) object;
    zf_vec(struct mg_param) param;
    struct zf_sorted named;            /* hashes of state and name, and numbers of the parameters */
    size_t n_named;                    /* parameters that are in it */
    bool trained;                      /* values of an optimizer are in the list */
    struct megatron_settings settings; /* of args; zeros where there are none */
    /* A master was found not to round to its weight: then the root has the stored weights. */
    bool masters_doubted;
    bool foreign_weights; /* the root has weights of other files, under other names */
    bool iterated;        /* a common state says the iteration */
    uint64_t iteration;
    char sharding[64]; /* distrib_optim_sharding_type of content_metadata, or "" */
    /* State of the backend, freed with the save; or NULL. */
    void *backend;
    void (*backend_free)(void *backend);
};

/* Gives an empty one.  Errors: ZF_E_NOMEM. */
bool mg_save_init(struct mg_save *s, struct zf_store *st, const struct zf_limits *lim,
                  struct zf_build *b, struct zf_err *err) ZF_CHECKED;
void mg_save_fini(struct mg_save *s);
static inline void zf_auto_mg_save(struct mg_save *s)
{
    mg_save_fini(s);
}

/* Adds a tensor under its key (copied), whose meaning is parsed: a hidden draft without pieces so far.
 * cuts: [ndim], copied, or NULL.  The pointer is good until the next one is added.
 * Errors: of zf_build_hidden; ZF_E_NOMEM. */
struct mg_tensor *mg_save_tensor(struct mg_save *s, const char *key, size_t key_len,
                                 struct zf_type type, const uint64_t *cuts,
                                 struct zf_err *err) ZF_CHECKED;
/* The same for a draft that is there already. */
struct mg_tensor *mg_save_draft(struct mg_save *s, const char *key, size_t key_len,
                                struct zf_draft *draft, const uint64_t *cuts,
                                struct zf_err *err) ZF_CHECKED;
/* Adds an object under its key (copied); takes its own reference on src.  The pointer is good until the next. */
struct mg_object *mg_save_object(struct mg_save *s, const char *key, size_t key_len,
                                 struct zf_source *src, struct zf_err *err) ZF_CHECKED;
/* Adds a parameter; its texts are the caller's, good as long as the save. */
bool mg_save_param(struct mg_save *s, const struct mg_param *p, struct zf_err *err) ZF_CHECKED;

/* Indexes the list of parameters as it is now. */
bool mg_save_index(struct mg_save *s, struct zf_err *err) ZF_CHECKED;
/* The first parameter of that state and name when the list was indexed, or NULL; both spellings of a master are one
 * state.  *n_out: how many there are. */
struct mg_param *mg_save_named(struct mg_save *s, struct mg_text state, struct mg_text name,
                               size_t *n_out);
/* Do several optimizers have this value of that parameter? */
bool mg_save_is_chained(struct mg_save *s, const struct mg_param *p);
#define MG_WEIGHTS ((struct mg_text){"", 0})
#define MG_MASTERS ((struct mg_text){"param", 5})

/* The object of that key in the directory `part`, or NULL.  By going through all. */
struct mg_object *mg_save_find_object(struct mg_save *s, const char *key, uint32_t part);

/* "iter_0000010" -> 10.  False: no name of Megatron's. */
bool mg_iteration_of(const char *name, uint64_t *out);
/* Notes the step.
 * Errors: ZF_E_FORMAT st's directory has another iteration's name: two saves mixed; forgiven in a degraded build. */
bool mg_iteration_check(struct zf_store *st, uint64_t iteration, struct zf_build *b,
                        struct zf_err *err) ZF_CHECKED;

/* "DIR/name" of the directory `part`, written to path[MG_PATH], which is returned. */
enum { MG_PATH = MG_DIR_MAX + 64 };
const char *mg_save_path(const struct mg_save *s, uint32_t part, const char *name,
                         char path[MG_PATH]);

/* The state dict without its shards.  Source: megatron/core/dist_checkpointing/
 * strategies/common.py (COMMON_STATE_FNAME, 0.4 … 0.18); in 0.19 an object of .metadata. */
#define MG_COMMON_FILE "common.pt"

/* Reads the common state of the directory `part`, a torch.save file of a dict or of a list of one dict: settings,
 * step, and state/common.json, or state/model.common.json … where there are several.
 * Errors: of zf_torch_open and settings, in the file `path`; ZF_E_FORMAT it is not that of the directories before. */
bool mg_save_common(struct mg_save *s, uint32_t part, struct zf_source *src, const char *path,
                    struct zf_err *err) ZF_CHECKED;
/* The same of MG_COMMON_FILE.  Errors: also ZF_E_FORMAT there is none; a degraded build notes all but those of memory. */
bool mg_save_common_file(struct mg_save *s, uint32_t part, struct zf_err *err) ZF_CHECKED;

#endif

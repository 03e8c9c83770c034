/* SPDX-License-Identifier: Apache-2.0 */
/* A save of Megatron-core, between the files and the tree.  The steps are the same for all backends
 * (torch_dist, zarr, Megatron-FSDP):
 *
 *  1. The backend fills `tensor` and `object`: the stored values, under their stored keys.  Each tensor
 *     is a hidden draft (zf_build_hidden) of the full shape, with all of its pieces.
 *  2. `param` lists the parameters that the user sees: slices of stacked tensors, slices found in flat
 *     buffers, and parameters joined from several parts.
 *  3. place.c shows both: parameters in the root, stored/ and optim/, stacked tensors in stacked/, flat
 *     buffers in bucket/.
 *
 * Everything lives in the arena, or in files that the backend keeps open as long as the save. */
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
    /* [ndim] chunks along each dimension, of equal size except the last, which may be smaller: a rank's
     * shard is such a chunk.  NULL: unknown, or no regular grid. */
    const uint64_t *cuts;
    uint64_t order; /* position in .metadata; MG_NONE if keys have no order (zarr) */
    bool sliced;    /* it has a layer or expert axis: shown in stacked/ */
};

/* A stored value that is not a tensor: a ShardedObject, a random state. */
struct mg_object {
    const char *key; /* as in .metadata: "rng_state/shard_0.1_1.2" */
    size_t key_len;
    struct mg_key name;
    struct zf_source *src; /* its exact bytes, a torch.save file; a reference that the save owns */
    bool in_state;         /* already shown in state/NAME.json */
    uint32_t part;         /* index of its directory in `dir` of the save */
};

/* A parameter, or one of its optimizer states, as shown to the user. */
struct mg_param {
    struct mg_text state; /* n = 0: the weight as stored; else "exp_avg", or a master's */
    struct mg_text name;  /* with the numbers of layer and expert */
    struct zf_type type;
    struct zf_draft *of; /* hidden draft that has its elements, from `first` on */
    uint64_t first;
    const struct mg_tensor *from; /* the stored tensor of which it is a slice or all; or NULL */
    bool unverified;    /* fp32 master with no weight to compare with; shown in optim/param */
    bool is_part;       /* piece of a joined parameter (W of W+V) that is listed as well */
    const size_t *part; /* [n_parts] a joined parameter: indices of its parts, in order */
    uint32_t n_parts;   /* 0 = not joined */
};

/* Most directories of one save: verl's model/, optimizer/, extra/, and one spare. */
enum { MG_DIRS = 4, MG_DIR_MAX = 128 };

struct mg_save {
    struct zf_store *st;
    /* Directories of the backend's files, relative to st: "", or several, each with its own metadata.json. */
    char dir[MG_DIRS][MG_DIR_MAX];
    uint32_t n_dirs;
    bool in_parts; /* verl's: the directories have names */
    const struct zf_limits *lim;
    struct zf_build *b;
    struct zf_arena *arena;
    zf_vec(struct mg_tensor) tensor;
    zf_vec(struct mg_object) object;
    zf_vec(struct mg_param) param;
    struct zf_sorted named;            /* hashes of state and name, and indices of the parameters */
    size_t n_named;                    /* number of parameters in it */
    bool trained;                      /* the list has optimizer states */
    struct megatron_settings settings; /* from args; 0 = not recorded */
    /* A master was found not to round to its weight: then the root has the stored weights. */
    bool masters_doubted;
    bool foreign_weights; /* the root has weights from other files, under other names */
    bool iterated;        /* a common state records the iteration */
    uint64_t iteration;
    char sharding[64]; /* distrib_optim_sharding_type of content_metadata, or "" */
    /* State of the backend, freed with the save; or NULL. */
    void *backend;
    void (*backend_free)(void *backend);
};

/* Makes an empty save.  Errors: ZF_E_NOMEM. */
bool mg_save_init(struct mg_save *s, struct zf_store *st, const struct zf_limits *lim,
                  struct zf_build *b, struct zf_err *err) ZF_CHECKED;
void mg_save_fini(struct mg_save *s);
static inline void zf_auto_mg_save(struct mg_save *s)
{
    mg_save_fini(s);
}

/* Adds a tensor under its key (copied and parsed), with a hidden draft that has no pieces yet.
 * cuts: [ndim], copied, or NULL.  The pointer is valid until the next one is added.
 * Errors: of zf_build_hidden; ZF_E_NOMEM. */
struct mg_tensor *mg_save_tensor(struct mg_save *s, const char *key, size_t key_len,
                                 struct zf_type type, const uint64_t *cuts,
                                 struct zf_err *err) ZF_CHECKED;
/* The same for an existing draft. */
struct mg_tensor *mg_save_draft(struct mg_save *s, const char *key, size_t key_len,
                                struct zf_draft *draft, const uint64_t *cuts,
                                struct zf_err *err) ZF_CHECKED;
/* Adds an object under its key (copied); takes a reference on src.  The pointer is valid until the next one is added. */
struct mg_object *mg_save_object(struct mg_save *s, const char *key, size_t key_len,
                                 struct zf_source *src, struct zf_err *err) ZF_CHECKED;
/* Adds a parameter; its strings are borrowed and must live as long as the save. */
bool mg_save_param(struct mg_save *s, const struct mg_param *p, struct zf_err *err) ZF_CHECKED;

/* Indexes the list of parameters as it is now. */
bool mg_save_index(struct mg_save *s, struct zf_err *err) ZF_CHECKED;
/* The first indexed parameter of that state and name, or NULL; both spellings of a master count as one
 * state.  *n_out: the number of such parameters. */
struct mg_param *mg_save_named(struct mg_save *s, struct mg_text state, struct mg_text name,
                               size_t *n_out);
/* Do several optimizers have this state of that parameter? */
bool mg_save_is_chained(struct mg_save *s, const struct mg_param *p);
#define MG_WEIGHTS ((struct mg_text){"", 0})
#define MG_MASTERS ((struct mg_text){"param", 5})

/* The object of that key in the directory `part`, or NULL.  Linear search. */
struct mg_object *mg_save_find_object(struct mg_save *s, const char *key, uint32_t part);

/* "iter_0000010" -> 10.  False: not a name of an iteration. */
bool mg_iteration_of(const char *name, uint64_t *out);
/* Notes the step.
 * Errors: ZF_E_FORMAT st's directory has another iteration's name: two saves mixed; forgiven in a degraded build. */
bool mg_iteration_check(struct zf_store *st, uint64_t iteration, struct zf_build *b,
                        struct zf_err *err) ZF_CHECKED;

/* "DIR/name" of the directory `part`, written to path[MG_PATH], which is returned. */
enum { MG_PATH = MG_DIR_MAX + 64 };
const char *mg_save_path(const struct mg_save *s, uint32_t part, const char *name,
                         char path[MG_PATH]);

/* The common state: the state dict without sharded values.  Source: megatron/core/dist_checkpointing/
 * strategies/common.py (COMMON_STATE_FNAME, 0.4 … 0.18); in 0.19 an object of .metadata. */
#define MG_COMMON_FILE "common.pt"

/* Reads the common state of the directory `part`, a torch.save file of a dict or of a list of one dict: settings,
 * step, and state/common.json, or state/model.common.json … if there are several.
 * Errors: of zf_torch_open and settings, in the file `path`; ZF_E_FORMAT it contradicts that of another directory. */
bool mg_save_common(struct mg_save *s, uint32_t part, struct zf_source *src, const char *path,
                    struct zf_err *err) ZF_CHECKED;
/* The same for MG_COMMON_FILE.  Errors: also ZF_E_FORMAT it is missing; degraded, all but ZF_E_NOMEM are noted. */
bool mg_save_common_file(struct mg_save *s, uint32_t part, struct zf_err *err) ZF_CHECKED;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of reading a save, by source file, roughly in the order in which deepspeed.c calls them. */
#ifndef FORMAT_DEEPSPEED_STEPS_H
#define FORMAT_DEEPSPEED_STEPS_H

#include "ds.h"

/* ---- name.c ---- */

/* Copies a string value into the arena; false (ZF_E_FORMAT, naming `what`) if it is not a string. */
bool ds_name_of(struct zf_arena *a, const struct zf_pv *v, const char *what, struct ds_name *out,
                struct zf_err *err) ZF_CHECKED;
/* The same for a field; "" after a failure. */
struct ds_name ds_take_name(const struct zf_take *x);
/* Concatenates x and y in the arena; .p = NULL: out of memory. */
struct ds_name ds_name_join(struct zf_arena *a, struct ds_name x, struct ds_name y,
                            struct zf_err *err) ZF_CHECKED;
bool ds_name_eq(struct ds_name a, struct ds_name b);
int ds_name_cmp(struct ds_name a, struct ds_name b);
/* Sorts a list of names once, so that ds_name_listed can use binary search: lists may be long. */
void ds_name_sort(struct ds_name *list, uint32_t n);
bool ds_name_listed(const struct ds_name *sorted, uint32_t n, struct ds_name name);

/* ---- files.c ---- */

/* True for the name of one rank's file. */
bool ds_dir_owns(const char *name);
/* The file name for these ranks and indices, without a parallel writer's suffix. */
const char *ds_file_name(struct ds_file f, char out[DS_FILE_NAME]);
/* A source inside a torch archive contains the name under which the archive was written:
 * "run/renamed.pt!zero_pp_rank_1_mp_rank_00_optim_states/data/0".  Checks that its rank is that in the
 * current file name.  Errors: ZF_E_FORMAT naming the original file. */
bool ds_dir_same_rank(const char *path, const char *source, struct zf_err *err) ZF_CHECKED;
/* Lists and sorts the files of directory st.  Strings live in the arena.
 * Errors: ZF_E_FORMAT two files claim one rank; of the store; of the arena. */
bool ds_dir_read(struct zf_store *st, struct zf_arena *a, struct ds_dir *out,
                 struct zf_err *err) ZF_CHECKED;

/* Opens ahead the files of data-parallel ranks below n_dp in the sorted list file[n]; they will be read
 * next, in that order. */
bool ds_files_expect(struct ds_save *ds, const struct ds_file *file, uint32_t n, uint32_t n_dp,
                     struct zf_err *err) ZF_CHECKED;
/* The same for all of file[n], which are only compared with the file `first`. */
bool ds_files_expect_alike(struct ds_save *ds, const char *first, const struct ds_file *file,
                           uint32_t n, struct zf_err *err) ZF_CHECKED;

/* ---- agree.c: values that all files of a save repeat ---- */

/* Lists in ds->file_values what the open file t must have in common with the others. */
bool ds_agree_read(struct ds_save *ds, struct zf_torch *t, const char *path, bool model,
                   struct zf_err *err) ZF_CHECKED;
/* Compares the file read last with the first of its kind, which is compared with the first of the
 * other kind.  Errors: ZF_E_FORMAT naming both files and both values. */
bool ds_agree_check(struct ds_save *ds, bool model, struct zf_err *err) ZF_CHECKED;
/* Compares the values of the open file t, the first of its model-parallel rank, that all model-parallel
 * ranks must have in common.  Errors: likewise. */
bool ds_agree_job(struct ds_save *ds, struct zf_torch *t, const char *path,
                  struct zf_err *err) ZF_CHECKED;
/* If all compared values of t, the file read last, are in its pickle, files with an identical pickle are
 * not compared. */
void ds_agree_remember(struct ds_save *ds, struct zf_torch *t);
/* Compares the model-states files f[n], from which nothing else is read, with the file `first`. */
bool ds_agree_models(struct ds_save *ds, const char *first, const struct ds_file *f, uint32_t n,
                     struct zf_err *err) ZF_CHECKED;
/* Hash of an affine map, which is too large to keep for comparing ranks.  The order of keys does not
 * change it.  0 if v is not a mapping, or has more than 16 million values.
 * Errors: ZF_E_NOMEM. */
bool ds_tp_digest(const struct zf_pv *v, uint64_t *out, struct zf_err *err) ZF_CHECKED;

/* ---- model_states.c ---- */

/* Reads a model-states file.  Everything is copied or held; the pickle is freed.
 * Errors: ZF_E_FORMAT not a model-states file, a value of the wrong kind; ZF_E_UNSUPPORTED a
 * parallelism that is not read; those of zf_torch_open. */
bool ds_model_read(struct ds_save *ds, const struct ds_file *f, struct ds_model *out,
                   struct zf_err *err) ZF_CHECKED;
/* The same for the first file of a model-parallel rank, with which the others are compared. */
bool ds_model_read_first(struct ds_save *ds, const struct ds_file *f, struct ds_model *out,
                         struct zf_err *err) ZF_CHECKED;
/* Makes room for `more` entries in m.  Errors: ZF_E_LIMIT tensors; of the arena. */
bool ds_entries_room(struct ds_save *ds, struct ds_model *m, uint64_t more,
                     struct zf_err *err) ZF_CHECKED;
/* Appends to m the entries of the open file t of a layer, an expert or (f = NULL) gathered weights; values
 * that are not tensors only from a layer.  Degraded, an unreadable tensor is lost and noted.
 * Errors: ZF_E_FORMAT not a mapping of names, or another rank's file; of ds_entries_room and of reading
 * tensors.  After an error m is unchanged. */
bool ds_entries_read(struct ds_save *ds, struct zf_torch *t, const struct ds_file *f,
                     struct ds_model *m, struct zf_err *err) ZF_CHECKED;
/* Sorts the entries of m for ds_model_find. */
bool ds_model_index(struct ds_save *ds, struct ds_model *m, struct zf_err *err) ZF_CHECKED;
/* The entry of that name, or NULL. */
const struct ds_entry *ds_model_find(const struct ds_model *m, struct ds_name name);
/* Takes a mapping (or a list of mappings) of names to shapes. */
void ds_take_shapes(const struct ds_save *ds, const struct zf_take *x, struct ds_shapes **out,
                    uint32_t *n_out);

/* ---- autoep.c ---- */

/* Takes ds_autoep_layers into *out, sorted by name; at most `most` tensors.  expert_placement and the
 * affine maps must agree.  Only shards of consecutive whole experts are supported. */
void ds_autoep_take(const struct zf_take *layers, uint64_t most, struct ds_fused **out,
                    uint32_t *n_out);
/* The fused tensor of that name, or NULL. */
const struct ds_fused *ds_autoep_find(const struct ds_fused *fused, uint32_t n,
                                      struct ds_name name);

/* ---- optim_states.c ---- */

/* Reads an optimizer-states file.  Everything is copied or held; the pickle is freed.
 * Errors: ZF_E_FORMAT not an optimizer-states file, a value of the wrong kind; ZF_E_UNSUPPORTED a
 * kind that is not read; those of zf_torch_open. */
bool ds_optim_read(struct ds_save *ds, const struct ds_file *f, struct ds_optim *out,
                   struct zf_err *err) ZF_CHECKED;

/* ---- extra_state.c: settings and client state, from the first model-states and optimizer file ---- */

bool ds_state_model(struct ds_save *ds, struct zf_torch *t, const char *path,
                    struct zf_err *err) ZF_CHECKED;
bool ds_state_optim(struct ds_save *ds, struct zf_torch *t, const char *path,
                    struct zf_err *err) ZF_CHECKED;

/* ---- rank.c, ranks.c ---- */

/* Reads the rank's files.
 * Errors: ZF_E_FORMAT files are missing, left over or of other saves; those of reading them. */
bool rank_read(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Compares the other model-states files with the one that was read; if that was done early
 * (mp->compared), returns its result. */
bool rank_agree_models(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* The first optimizer file that could be read, or NULL. */
const struct ds_optim *rank_optim(const struct ds_rank *mp);
/* Degraded: forgives a failure to read m, which is then treated as missing.  Files of two saves are
 * still refused. */
bool rank_skip_model(struct ds_save *ds, const struct ds_model *m, struct zf_err *err) ZF_CHECKED;
/* The rank's parameter or buffer of that name, if it is drafted, or NULL.  In a universal checkpoint
 * trained parameters are found in the root. */
struct zf_draft *rank_find(const struct ds_rank *mp, struct ds_name name);
/* Degraded: handles a failure to prove which parameter each master belongs to: the weights of `module`
 * are served instead, and a note says why.  Otherwise returns false and keeps the error. */
bool rank_drop_masters(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

/* Divides the files of the directory by model-parallel rank.
 * Errors: ZF_E_FORMAT a rank has no files; degraded: it is noted. */
bool ds_ranks_list(struct ds_save *ds, struct ds_ranks *out, struct zf_err *err) ZF_CHECKED;
/* The first rank whose model-states file could be read, or NULL. */
const struct ds_rank *ds_ranks_first(const struct ds_ranks *all);
/* Degraded: removes ranks without a readable model-states file, except stages of a pipeline (their layer
 * and optimizer files are enough) and a single rank whose parameters the optimizer files name.
 * Errors: ZF_E_FORMAT there is no other rank. */
bool ds_ranks_drop(struct ds_save *ds, struct ds_ranks *all, struct zf_err *err) ZF_CHECKED;
/* Sets tp and pp of ds, and each rank's stage and tensor-parallel rank, after the ranks are read.
 * Errors: ZF_E_FORMAT the recorded degrees contradict the files. */
bool ds_ranks_mesh(struct ds_save *ds, struct ds_ranks *all, struct zf_err *err) ZF_CHECKED;
void ds_ranks_fini(struct ds_ranks *all);

/* ---- layers.c, layers_rest.c ---- */

/* Reads all layer files, and adds those with parameters or buffers that a rank names to its model.
 * Errors: ZF_E_FORMAT a layer's file is missing, two stages claim it; those of reading. */
bool ds_layers_read(struct ds_save *ds, struct ds_ranks *all, struct ds_layers *out,
                    struct zf_err *err) ZF_CHECKED;
/* The front "tied_modules.<key>." of a parameter's name; n = 0: not in a tied module. */
struct ds_name ds_layers_tied_key(struct ds_name name);
/* Appends the entries of the layer to the model, with `head` in front of their names. */
bool ds_layers_give(struct ds_rank *mp, const struct ds_layer *l, const char *head,
                    struct zf_err *err) ZF_CHECKED;
/* After the masters of mp are drafted: assigns it the files of its tied modules that no rank has yet. */
bool ds_layers_tied(struct ds_rank *mp, struct ds_layers *l, struct zf_err *err) ZF_CHECKED;
/* After all ranks are drafted: drafts the remaining layer files, which have no trained parameters, in the
 * tree of the preceding layer's rank.  Errors: ZF_E_FORMAT a file has the names and shapes of a tied
 * module whose masters do not round to it. */
bool ds_layers_frozen(struct ds_save *ds, struct ds_ranks *all, struct ds_layers *l,
                      struct zf_err *err) ZF_CHECKED;

/* ---- experts.c, experts_split.c ----
 *
 * Mixtures of experts.  Only some data-parallel ranks train an expert: a group of experts has `sets` flat
 * buffers, one per expert-parallel rank, and each is partitioned over n_dp / sets ranks.  Flat buffer e
 * is on ranks e, e + sets, e + 2 * sets …, or (`blocks`) on a block of consecutive ranks. */

/* Reads the files of the rank's experts.  Errors: ZF_E_FORMAT a file holds another expert, or two files
 * hold the same one. */
bool ds_experts_read(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Divides mp->group by the ranks that share a flat buffer, and renames the experts in it to their
 * indices in the whole model.  Errors: ZF_E_FORMAT the ranks do not match the groups, or an expert's
 * file is missing. */
bool ds_experts_split(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* [*n] the data-parallel ranks of flat buffer e of file group g; NULL = err is set. */
const uint32_t *ds_experts_ranks(const struct ds_rank *mp, uint32_t g, uint32_t e, uint32_t *n,
                                 struct zf_err *err);

/* Number of the expert in a name: "….deepspeed_moe.experts.deepspeed_experts.3.fc.weight" */
struct ds_expert_name {
    struct ds_name prefix, rest; /* in front of the number, and behind it */
    uint32_t number;
};
bool ds_expert_name(struct ds_name name, struct ds_expert_name *out);

/* The 16-bit weight of parameter p, or of expert l of a fused p; NULL: missing, or the name of the fused
 * tensor is longer than a thousand bytes. */
const struct ds_entry *ds_experts_weight(const struct ds_rank *mp, const struct ds_param *p,
                                         uint64_t l);

/* ---- groups.c, mappings.c ---- */

/* Makes mp->group from the files read for the rank, including those of its experts.
 * Errors: ZF_E_FORMAT the files do not name the parameters; those of ds_experts_split. */
bool ds_groups_make(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* *sum: elements of group g of the optimizer files, over all ranks that are not lost. */
bool ds_groups_count(const struct ds_rank *mp, uint32_t g, uint64_t *sum,
                     struct zf_err *err) ZF_CHECKED;
/* *out: the group `like`, but with the parameters mp->merged->param[which[0 .. n)], in that order. */
bool ds_groups_pick(struct ds_rank *mp, const struct ds_group *like, const uint32_t *which,
                    uint32_t n, struct ds_group *out, struct zf_err *err) ZF_CHECKED;

/* Joins the param_slice_mappings of the ranks of each group's first flat buffer: names, and flat shapes
 * [length].  NULL = err is set.  Errors: ZF_E_FORMAT slices leave a hole or overlap; ranks differ. */
struct ds_shapes *ds_mappings_join(struct ds_rank *mp, uint32_t n_groups, struct zf_err *err);
/* Gives every parameter the shape of its 16-bit weight.  Errors: ZF_E_FORMAT no weight of its length. */
bool ds_mappings_shape(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

/* ---- order.c, merged.c: the parameters of each flat buffer, and their order ---- */

/* Proves the order of the parameters of all groups, and puts mp->group in it (stages 1 and 2).
 * Errors: ZF_E_FORMAT a master does not round to its weight; not proven. */
bool ds_order_prove(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* The same if a single mapping names the parameters of all groups (before 0.5.4): proves each one's group, too.
 * Errors: ZF_E_FORMAT not proven; a master does not round to its weight; of reading. */
bool ds_merged_prove(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

/* ---- zero12.c, zero3.c, zero0.c: trained parameters and their states ---- */

/* Drafts the trained parameters and their optimizer states. */
bool ds_zero12_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Drafts the trained parameters and their optimizer states. */
bool ds_zero3_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Joins the slices of frozen parameters. */
bool ds_zero3_frozen(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Compares the masters, rounded, with the weights of m, which has every trained parameter.
 * bad->p: the first parameter that differs, or NULL. */
bool ds_zero3_rounds(struct ds_rank *mp, const struct ds_model *m, struct ds_name *bad,
                     struct zf_err *err) ZF_CHECKED;
/* The same for a save without ZeRO, if the names can be proved. */
bool ds_zero0_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

/* ---- buffers.c, ties.c, stored.c ---- */

/* Drafts tensors in no flat buffer: buffers, frozen parameters, tied names. */
bool ds_rest_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Drafts stored/, the 16-bit weights. */
bool ds_stored_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Marks the entries of m that are aliases of another.  Pre: the trained parameters are drafted; among
 * tied names they are preferred.
 * Errors: ZF_E_NOMEM. */
bool ds_ties_mark(struct ds_rank *mp, struct ds_model *m, struct zf_err *err) ZF_CHECKED;
/* Is entry i an alias of another entry? */
static inline bool ds_is_tie(const struct ds_model *m, uint32_t i)
{
    return m->entry[i].same != i;
}
/* True if shared_params lists the name as an alias. */
bool ds_ties_listed(const struct ds_model *m, struct ds_name name);

/* ---- warn.c: saves that DeepSpeed's own tools convert wrongly ---- */

/* Notes known errors of those tools for this save.  Pre: the rank is drafted, its prefix set. */
bool ds_warn_note(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Notes that the step count of the optimizer, in `file`, is not the model's: their files may be of
 * different steps, since they have only settings in common.  The optimizer does not count steps skipped
 * by overflow, and up to 0.9 counted one more. */
bool ds_warn_steps(struct ds_save *ds, const struct ds_model *m, double optim, const char *file,
                   struct zf_err *err) ZF_CHECKED;

/* ---- universal.c, universal_prove.c ---- */

/* Drafts the trained parameters and their states from the files below zero/ of a universal checkpoint.
 * mp: the groups of all ranks.  Errors: ZF_E_FORMAT a parameter is missing, or from another save. */
bool ds_universal_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* After everything is drafted and joined: compares the masters with the weights of `module`; for stage 3
 * compares masters and states with rank 0's partitions in zero/optimizer_state.pt.
 * Errors: ZF_E_FORMAT they differ (degraded, too); of reading. */
bool ds_universal_prove(struct ds_save *ds, const struct ds_ranks *all,
                        struct zf_err *err) ZF_CHECKED;

/* ---- tp_join.c, numbered.c, trained.c: after all ranks are drafted ---- */

/* Joins the trees of all ranks by the user's rules, or by those recorded in the save.  Without rules, or
 * if recorded ones do not fit, the trees remain separate, and a note says why.
 * Errors: ZF_E_FORMAT the user's rules do not fit, stages that share a module differ; of reading. */
bool ds_tp_join(struct ds_save *ds, struct ds_ranks *all, struct zf_err *err) ZF_CHECKED;
/* After the ranks are joined: drafts optimizer states without a proved name (saves without ZeRO) under
 * their parameter ids, in each rank's tree.  Errors: ZF_E_FORMAT an expert-parallel rank's file is
 * missing; of reading. */
bool ds_numbered_draft(struct ds_ranks *all, struct zf_err *err) ZF_CHECKED;

/* Names of parameters, sorted. */
struct ds_trained {
    struct ds_name *name;
    uint32_t n;
};

/* The names of the parameters that the ranks of the tree `dir` train; "" = all ranks. */
bool ds_trained_names(struct ds_save *ds, const struct ds_ranks *all, const char *dir,
                      struct ds_trained *out, struct zf_err *err) ZF_CHECKED;
/* Shows trained/, exactly the parameters in the optimizer, and adapters, in the root and in every rank's
 * tree that has weights.  Pre: everything else is drafted. */
bool ds_trained_show(struct ds_save *ds, const struct ds_ranks *all, struct zf_err *err) ZF_CHECKED;

#endif

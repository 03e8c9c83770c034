/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of reading a save, about in the order of deepspeed.c, under the files that do them. */
#ifndef FORMAT_DEEPSPEED_STEPS_H
#define FORMAT_DEEPSPEED_STEPS_H

#include "ds.h"

/* ---- name.c ---- */

/* Copies a text value into the arena; false (ZF_E_FORMAT, naming `what`) when it is no text. */
bool ds_name_of(struct zf_arena *a, const struct zf_pv *v, const char *what, struct ds_name *out,
                struct zf_err *err) ZF_CHECKED;
/* The same of a field; "" after a failure. */
struct ds_name ds_take_name(const struct zf_take *x);
/* Both, one behind the other, in the arena; .p = NULL: it has no room. */
struct ds_name ds_name_join(struct zf_arena *a, struct ds_name x, struct ds_name y,
                            struct zf_err *err) ZF_CHECKED;
bool ds_name_eq(struct ds_name a, struct ds_name b);
int ds_name_cmp(struct ds_name a, struct ds_name b);
/* Lists may be as long as a file makes them: they are sorted once and then searched. */
void ds_name_sort(struct ds_name *list, uint32_t n);
bool ds_name_listed(const struct ds_name *sorted, uint32_t n, struct ds_name name);

/* ---- files.c ---- */

/* True for the name of one rank's file. */
bool ds_dir_owns(const char *name);
/* The name that a file of these numbers has, without a parallel writer's. */
const char *ds_file_name(struct ds_file f, char out[DS_FILE_NAME]);
/* A source inside a torch archive carries the name under which the archive was written:
 * "run/renamed.pt!zero_pp_rank_1_mp_rank_00_optim_states/data/0".  The rank must be that of the
 * file's path now.  Errors: ZF_E_FORMAT naming the other. */
bool ds_dir_same_rank(const char *path, const char *source, struct zf_err *err) ZF_CHECKED;
/* Sorts the names of directory st.  Strings live in the arena.
 * Errors: ZF_E_FORMAT two files claim one rank; of the store; of the arena. */
bool ds_dir_read(struct zf_store *st, struct zf_arena *a, struct ds_dir *out,
                 struct zf_err *err) ZF_CHECKED;

/* Of file[n], sorted, those of data-parallel ranks below n_dp will be read next, in their order:
 * they are opened ahead. */
bool ds_files_expect(struct ds_save *ds, const struct ds_file *file, uint32_t n, uint32_t n_dp,
                     struct zf_err *err) ZF_CHECKED;
/* The same of all of them, of which nothing is wanted but what they repeat of the file `first`. */
bool ds_files_expect_alike(struct ds_save *ds, const char *first, const struct ds_file *file,
                           uint32_t n, struct zf_err *err) ZF_CHECKED;

/* ---- agree.c: values that all files of a save repeat ---- */

/* Lists in ds->file_values what the open file t must have in common with the others. */
bool ds_agree_read(struct ds_save *ds, struct zf_torch *t, const char *path, bool model,
                   struct zf_err *err) ZF_CHECKED;
/* Compares the file read last with the first of its kind, which is compared with the first of the
 * other kind.  Errors: ZF_E_FORMAT naming both files and both values. */
bool ds_agree_check(struct ds_save *ds, bool model, struct zf_err *err) ZF_CHECKED;
/* Compares what the open file t, the first of its model-parallel rank, must have in common with those of
 * all others.  Errors: likewise. */
bool ds_agree_job(struct ds_save *ds, struct zf_torch *t, const char *path,
                  struct zf_err *err) ZF_CHECKED;
/* Files with the same pickle as t, which was read last, need not be compared, if that holds all its values. */
void ds_agree_remember(struct ds_save *ds, struct zf_torch *t);
/* Compares the model-states files f[n], from which nothing else is read, with the file `first`. */
bool ds_agree_models(struct ds_save *ds, const char *first, const struct ds_file *f, uint32_t n,
                     struct zf_err *err) ZF_CHECKED;
/* Order-independent hash of an affine map, which is too large to keep for comparing ranks: the same for the same values in
 * mappings of any order, and else hardly ever; 0 for what is no mapping, or has more than some million values.
 * Errors: ZF_E_NOMEM. */
bool ds_tp_digest(const struct zf_pv *v, uint64_t *out, struct zf_err *err) ZF_CHECKED;

/* ---- model_states.c ---- */

/* Reads a model-states file.  Everything is copied or held; the pickle is freed.
 * Errors: ZF_E_FORMAT not a model-states file, a value of the wrong kind; ZF_E_UNSUPPORTED a
 * parallelism that is not read; those of zf_torch_open. */
bool ds_model_read(struct ds_save *ds, const struct ds_file *f, struct ds_model *out,
                   struct zf_err *err) ZF_CHECKED;
/* The same of the first file of a model-parallel rank, which the others repeat. */
bool ds_model_read_first(struct ds_save *ds, const struct ds_file *f, struct ds_model *out,
                         struct zf_err *err) ZF_CHECKED;
/* Makes room for this many more entries of m.  Errors: ZF_E_LIMIT tensors; of the arena. */
bool ds_entries_room(struct ds_save *ds, struct ds_model *m, uint64_t more,
                     struct zf_err *err) ZF_CHECKED;
/* Appends to m what the open file t of a layer, an expert or (f = NULL) gathered weights maps names to; of all but a layer
 * only tensors.  Degraded, a tensor that cannot be read is lost, and a note says so.
 * Errors: ZF_E_FORMAT it is no such mapping, or another rank's file; of ds_entries_room and of reading tensors; then m has no
 * more entries than before. */
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

/* Takes ds_autoep_layers into *out, sorted by name; at most this many tensors.  Two records of it must agree; zerofs cannot
 * read experts that are cut in another way than one after the other. */
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

/* ---- extra_state.c: what is no weight, from the first model-states and optimizer file ---- */

bool ds_state_model(struct ds_save *ds, struct zf_torch *t, const char *path,
                    struct zf_err *err) ZF_CHECKED;
bool ds_state_optim(struct ds_save *ds, struct zf_torch *t, const char *path,
                    struct zf_err *err) ZF_CHECKED;

/* ---- rank.c, ranks.c ---- */

/* Reads the rank's files.
 * Errors: ZF_E_FORMAT files are missing, left over or of other saves; those of reading them. */
bool rank_read(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Compares the model-states files behind the one that was read with it, or tells what came of that. */
bool rank_agree_models(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* The first optimizer file that could be read, or NULL. */
const struct ds_optim *rank_optim(const struct ds_rank *mp);
/* Degraded: handles the failure to read m, which is as good as missing then.  Files of two saves are
 * refused all the same. */
bool rank_skip_model(struct ds_save *ds, const struct ds_model *m, struct zf_err *err) ZF_CHECKED;
/* The rank's tensor of that name that is no state, as far as it is drafted, or NULL: in a universal save
 * what was trained is at the root. */
struct zf_draft *rank_find(const struct ds_rank *mp, struct ds_name name);
/* Degraded: handles a failure to prove which parameter each master is of.  The weights are then those of
 * `module`, and a note says why.  Else it gives the failure back. */
bool rank_drop_masters(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

/* Divides the files of the directory into those of each rank.
 * Errors: ZF_E_FORMAT a rank has no files; degraded: it is noted. */
bool ds_ranks_list(struct ds_save *ds, struct ds_ranks *out, struct zf_err *err) ZF_CHECKED;
/* The first rank whose model-states file could be read, or NULL. */
const struct ds_rank *ds_ranks_first(const struct ds_ranks *all);
/* Degraded: takes out the ranks of which no model-states file can be read, unless they are stages of a
 * pipeline (their layers' files and the optimizer's are enough) or the only one, whose parameters the
 * optimizer's files name.
 * Errors: ZF_E_FORMAT there is no other rank. */
bool ds_ranks_drop(struct ds_save *ds, struct ds_ranks *all, struct zf_err *err) ZF_CHECKED;
/* Settles tp and pp of ds, and each rank's place, once the ranks are read.
 * Errors: ZF_E_FORMAT what is recorded does not go with the files. */
bool ds_ranks_mesh(struct ds_save *ds, struct ds_ranks *all, struct zf_err *err) ZF_CHECKED;
void ds_ranks_fini(struct ds_ranks *all);

/* ---- layers.c, layers_rest.c ---- */

/* Reads all files, and gives those of layers that a rank's names speak of to its model.
 * Errors: ZF_E_FORMAT a layer's file is missing, two stages claim it; those of reading. */
bool ds_layers_read(struct ds_save *ds, struct ds_ranks *all, struct ds_layers *out,
                    struct zf_err *err) ZF_CHECKED;
/* "tied_modules.<key>." of a parameter's name; n = 0: it is none. */
struct ds_name ds_layers_tied_key(struct ds_name name);
/* Appends the entries of the layer to the model, with `head` in front of their names. */
bool ds_layers_give(struct ds_rank *mp, const struct ds_layer *l, const char *head,
                    struct zf_err *err) ZF_CHECKED;
/* Once the masters of mp are drafted: gives it the file of each tied module of it that nobody has yet. */
bool ds_layers_tied(struct ds_rank *mp, struct ds_layers *l, struct zf_err *err) ZF_CHECKED;
/* Once all ranks are drafted: drafts what is left of the layers' files, of which nothing is trained, for the
 * rank of the layer before.  Errors: ZF_E_FORMAT the file should be a tied module's, but is not what its masters
 * round to. */
bool ds_layers_frozen(struct ds_save *ds, struct ds_ranks *all, struct ds_layers *l,
                      struct zf_err *err) ZF_CHECKED;

/* ---- experts.c, experts_split.c ----
 *
 * Mixtures of experts.  An expert is trained by some data-parallel ranks only: a group of experts is
 * cut into fewer partitions than there are ranks, and there are as many vectors of it as ranks go
 * into them.  Of `sets` vectors, number e is spread over the ranks e, e + sets, e + 2 * sets …, or
 * in blocks over those that follow each other. */

/* Reads the files of the rank's experts.  Errors: ZF_E_FORMAT a file holds another expert, two files
 * hold one. */
bool ds_experts_read(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Divides mp->group by the ranks that share a vector, and gives the experts in it the numbers that
 * they have in the whole model.  Errors: ZF_E_FORMAT the ranks do not go with the groups, an
 * expert's file is missing. */
bool ds_experts_split(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* The data-parallel ranks of vector e of file group g, [*n]; NULL = err is set. */
const uint32_t *ds_experts_ranks(const struct ds_rank *mp, uint32_t g, uint32_t e, uint32_t *n,
                                 struct zf_err *err);

/* Number of the expert in a name: "….deepspeed_moe.experts.deepspeed_experts.3.fc.weight" */
struct ds_expert_name {
    struct ds_name prefix, rest; /* in front of the number, and behind it */
    uint32_t number;
};
bool ds_expert_name(struct ds_name name, struct ds_expert_name *out);

/* The 16-bit weight of parameter p, or of expert l of those that are fused in it; NULL: not there, or
 * the name of the fused is longer than a thousand bytes. */
const struct ds_entry *ds_experts_weight(const struct ds_rank *mp, const struct ds_param *p,
                                         uint64_t l);

/* ---- groups.c, mappings.c ---- */

/* Makes mp->group out of what was read: the rank's files, and those of its experts.
 * Errors: ZF_E_FORMAT the files do not name what they hold; those of ds_experts_split. */
bool ds_groups_make(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* The elements that the ranks whose files are there have of group g of the files. */
bool ds_groups_count(const struct ds_rank *mp, uint32_t g, uint64_t *sum,
                     struct zf_err *err) ZF_CHECKED;
/* The group `like` with the parameters which[0 .. n) of mp->merged in its vector, in that order. */
bool ds_groups_pick(struct ds_rank *mp, const struct ds_group *like, const uint32_t *which,
                    uint32_t n, struct ds_group *out, struct zf_err *err) ZF_CHECKED;

/* Joins the slices of the ranks of each group's first vector: names and lengths, one shape [length]
 * each.  NULL = err is set.  Errors: ZF_E_FORMAT slices leave a hole or overlap; ranks differ. */
struct ds_shapes *ds_mappings_join(struct ds_rank *mp, uint32_t n_groups, struct zf_err *err);
/* Gives every parameter the shape of its 16-bit weight.  Errors: ZF_E_FORMAT there is none of its
 * length. */
bool ds_mappings_shape(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

/* ---- order.c, merged.c: which parameters are in which vector, in what order ---- */

/* Proves the order of the parameters of all groups, and puts mp->group in it (stages 1 and 2).
 * Errors: ZF_E_FORMAT a master does not round to its weight; not proven. */
bool ds_order_prove(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* The same where one mapping names the parameters of all groups (before 0.5.4): which are in which vector is proved, too.
 * Errors: ZF_E_FORMAT not proven; a master does not round to its weight; of reading. */
bool ds_merged_prove(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

/* ---- zero12.c, zero3.c, zero0.c: trained parameters and their states ---- */

/* Drafts the trained parameters and their optimizer states. */
bool ds_zero12_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Drafts the trained parameters and their optimizer states. */
bool ds_zero3_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Joins the slices of frozen parameters. */
bool ds_zero3_frozen(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Are the weights of m, which has every trained parameter, what the masters round to?
 * bad->p: the first that is not, or NULL. */
bool ds_zero3_rounds(struct ds_rank *mp, const struct ds_model *m, struct ds_name *bad,
                     struct zf_err *err) ZF_CHECKED;
/* Drafts those of a save without ZeRO, as far as their names can be proved. */
bool ds_zero0_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;

/* ---- buffers.c, ties.c, stored.c ---- */

/* Drafts what has no flat vector: buffers, frozen parameters, tied names. */
bool ds_rest_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Drafts stored/, the 16-bit weights. */
bool ds_stored_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Marks which entries of m are second names of another.  Pre: the trained parameters are drafted, and are preferred.
 * Errors: ZF_E_NOMEM. */
bool ds_ties_mark(struct ds_rank *mp, struct ds_model *m, struct zf_err *err) ZF_CHECKED;
/* Is entry i a second name? */
static inline bool ds_is_tie(const struct ds_model *m, uint32_t i)
{
    return m->entry[i].same != i;
}
/* True if shared_params lists it as a second name. */
bool ds_ties_listed(const struct ds_model *m, struct ds_name name);

/* ---- warn.c: where DeepSpeed's own tools are wrong about a save ---- */

/* Notes it, with what shows it.  Pre: the rank is drafted, its prefix set. */
bool ds_warn_note(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Notes that the optimizer, in `file`, counted otherwise than the model: the files of the one may
 * be of another step than those of the other, which repeat nothing but the settings.  Steps that
 * overflowed are not the optimizer's, and up to 0.9 it counted one more. */
bool ds_warn_steps(struct ds_save *ds, const struct ds_model *m, double optim, const char *file,
                   struct zf_err *err) ZF_CHECKED;

/* ---- universal.c, universal_prove.c ---- */

/* Drafts the trained parameters and their states from the files below zero/ of a universal checkpoint.  mp: all
 * ranks as one.  Errors: ZF_E_FORMAT a parameter is missing, or of another save than the others. */
bool ds_universal_draft(struct ds_rank *mp, struct zf_err *err) ZF_CHECKED;
/* Once everything is drafted, and joined where it can be: compares the masters with the weights of `module`,
 * or, of stage 3, masters and states with the vectors of rank 0 that zero/optimizer_state.pt holds.
 * Errors: ZF_E_FORMAT they differ (degraded, too); of reading. */
bool ds_universal_prove(struct ds_save *ds, const struct ds_ranks *all,
                        struct zf_err *err) ZF_CHECKED;

/* ---- tp_join.c, numbered.c, trained.c: once all ranks are drafted ---- */

/* Joins the trees of all ranks, once they are drafted, as the user's rules or the save itself say; where
 * neither does, or what they say does not fit, the trees stay and a note says why.
 * Errors: ZF_E_FORMAT the user's rules do not fit, stages that share a module differ; of reading. */
bool ds_tp_join(struct ds_save *ds, struct ds_ranks *all, struct zf_err *err) ZF_CHECKED;
/* Once the ranks are joined: drafts what the optimizers of a save without ZeRO hold, of which no name is proved, under
 * their numbers, in each rank's tree.  Errors: ZF_E_FORMAT an expert-parallel rank's file is missing; of reading. */
bool ds_numbered_draft(struct ds_ranks *all, struct zf_err *err) ZF_CHECKED;

/* Names of parameters, sorted. */
struct ds_trained {
    struct ds_name *name;
    uint32_t n;
};

/* Those that the ranks of the tree `dir` train; "" = all ranks. */
bool ds_trained_names(struct ds_save *ds, const struct ds_ranks *all, const char *dir,
                      struct ds_trained *out, struct zf_err *err) ZF_CHECKED;
/* Shows trained/, exactly the parameters that the optimizer holds, and the adapters among the weights: in the root, and in every rank's tree, as far as it has weights.  Pre: everything else is
 * drafted. */
bool ds_trained_show(struct ds_save *ds, const struct ds_ranks *all, struct zf_err *err) ZF_CHECKED;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of opening a save, in megatron.c's order; save.h has the lists that the steps fill.
 * Each has a file of its own. */
#ifndef FORMAT_MEGATRON_STEPS_H
#define FORMAT_MEGATRON_STEPS_H

#include <zf/format.h>
#include <zf/source/store.h>

#include "bucket_match.h"
#include "save.h"

/* Compares the files that opening reads whole with the sums that Megatron writes beside a save, if there are any, and notes
 * which are not compared.
 * Errors: ZF_E_FORMAT a sum is another (a note in a degraded build), integrity.json is no JSON; of reading. */
bool mg_integrity_check(struct zf_store *st, const struct zf_limits *lim, struct zf_build *b,
                        struct zf_err *err) ZF_CHECKED;

/* ---- backends: tensors and objects as stored, settings, state/ ---- */

/* torch_dist: .metadata and .distcp files, read by the driver in <zf/dcp.h>.
 * Errors: of the driver and of mg_save_common; ZF_E_FORMAT there is no .metadata. */
bool mg_torch_dist(struct mg_save *s, struct zf_err *err) ZF_CHECKED;
/* Can .metadata of the directory i be read?  Asked in a degraded build only; nothing of it stays.  Errors: of the driver. */
bool mg_torch_dist_try(struct mg_save *s, uint32_t i, struct zf_err *err) ZF_CHECKED;
/* zarr (core 0.4 … 0.15): a directory a tensor, a file a chunk, a file an object.  Lists each directory once and
 * opens no chunk, but for the first of a compressed tensor, whose head is compared with what .zarray says. */
bool mg_zarr(struct mg_save *s, struct zf_err *err) ZF_CHECKED;
/* fsdp_dtensor (Megatron-FSDP) and torch_dcp (torch's FSDP2): Megatron's state dict as torch.distributed.checkpoint
 * flattens it, without a manifest of Megatron's.  Does st's root look like one?  Reads the beginning of .metadata;
 * `why` says what was seen. */
bool mg_fsdp_is(struct zf_store *st, char why[160]);
/* Errors: of the driver; ZF_E_FORMAT the iteration inside is not that of the folder. */
bool mg_fsdp(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

/* The beginning of .metadata, *n bytes at most, malloc'ed; *n: how many.  NULL: there is none, or it cannot be read. */
char *mg_metadata_head(struct zf_store *st, size_t *n);

/* Parses a key of a backend. */
typedef void mg_parse_fn(const char *key, size_t n, struct mg_key *out);
/* Of torch_dist and fsdp_dtensor: reads .metadata and fills the lists of tensors and objects; the driver of <zf/dcp.h>
 * becomes the save's backend.  Errors: of the driver; of mg_save_draft and mg_save_object. */
bool mg_dcp_lists(struct mg_save *s, mg_parse_fn *parse, struct zf_err *err) ZF_CHECKED;
/* torch_dcp keeps the values of an optimizer under a parameter's number.  Gives masters and states of the list the names of
 * their parameters, as masters prove them: all of them or none, with a note.  Without masters nothing is done.
 * Errors: of reading; ZF_E_NOMEM. */
bool mg_fsdp_ids(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

/* ---- parameters out of them ---- */

/* Makes parameters of the stored weights and optimizer states: one a layer and expert where the axes
 * are found, else one a tensor.  Sets `sliced` of each tensor.
 * Errors: ZF_E_LIMIT tensors; ZF_E_NOMEM. */
bool mg_axes_slice(struct mg_save *s, struct zf_err *err) ZF_CHECKED;
/* Adds a joined parameter for each that is in the list in parts only, all of them of one type and equal
 * but in their first dimension, and marks its parts.
 * Errors: ZF_E_LIMIT tensors; ZF_E_NOMEM. */
bool mg_parts_join(struct mg_save *s, struct zf_err *err) ZF_CHECKED;
/* Are the masters what the weights were rounded from?  Compares the first and last elements of each with its weight,
 * several at once; of many behind an address a sample, in which every layer is.
 * Where one does not round to it, masters_doubted is set, and a note says which.
 * Errors: of reading, but for what a degraded build has lost. */
bool mg_masters_check(struct mg_save *s, struct zf_err *err) ZF_CHECKED;
/* Adds the states of every parameter that is proved to be in the buffers, whole or not at all, and notes
 * what is mapped, and why the rest is not.  The list of parameters is complete otherwise; ZF_VALUES_ENDS
 * elements at either end of each piece are compared.
 * Errors: of reading and of the build. */
bool mg_buckets_map(struct mg_save *s, const struct flat_buffers *buffers,
                    struct zf_err *err) ZF_CHECKED;
/* Shows everything in the save at its place in the tree, by the rules of zerofs(5):
 * parameters, stacked/, bucket/, extra/.  Errors: of the build. */
bool mg_place(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

/* verl's Megatron saves: up to three saves of Megatron-core, each in a directory of its own, and the weights as files
 * of Hugging Face instead of the first, or beside it. */

/* Is st's root such a save, finished or not?  Then *out says so. */
bool mg_verl_probe(struct zf_store *st, const struct zf_limits *lim, struct zf_probe *out);

/* Of a save of verl, sets `in_parts`, `dir`, `n_dirs` (0: none is of Megatron's) and `foreign_weights`, and checks that all is
 * there that ckpt_contents.json names; of another one, nothing is changed.
 * Errors: ZF_E_FORMAT the file is damaged or missing, or what it names is; ZF_E_UNSUPPORTED another schema_version. */
bool mg_verl_find(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

/* Is model/dist_ckpt one of Megatron-FSDP, which holds the optimizer too? */
bool mg_verl_is_fsdp(struct zf_store *st);

/* One of the directories that was pointed at by itself: notes where the whole save is. */
bool mg_verl_note_above(const struct zf_save *save, const struct zf_open_opts *o,
                        struct zf_build *b, struct zf_err *err) ZF_CHECKED;

/* Puts the tensors of model/huggingface into the root.  Errors: ZF_E_FORMAT a file is missing or damaged. */
bool mg_verl_weights(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

/* Saves of Megatron's oldest format: one torch.save file a model-parallel rank. */

/* Is save->store the folder of an iteration that holds mp_rank_* folders with a file each?  Errors: of
 * the store. */
bool legacy_probe(const struct zf_save *save, const struct zf_open_opts *o, struct zf_probe *out,
                  struct zf_err *err) ZF_CHECKED;
bool legacy_open(const struct zf_save *save, const struct zf_open_opts *o, struct zf_build *b,
                 struct zf_err *err) ZF_CHECKED;

#endif

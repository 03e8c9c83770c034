/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of opening a save, in megatron.c's order; save.h has the lists that the steps fill.
 * Each has a file of its own. */
#ifndef FORMAT_MEGATRON_STEPS_H
#define FORMAT_MEGATRON_STEPS_H

#include <zf/format.h>
#include <zf/source/store.h>

#include "bucket_match.h"
#include "save.h"

/* Verifies the files that opening reads whole by the checksums in integrity.json, if the save has one, and notes the
 * files that are not verified.
 * Errors: ZF_E_FORMAT a checksum differs (degraded: noted), integrity.json is invalid JSON; of reading. */
bool mg_integrity_check(struct zf_store *st, const struct zf_limits *lim, struct zf_build *b,
                        struct zf_err *err) ZF_CHECKED;

/* ---- backends: tensors and objects as stored, settings, state/ ---- */

/* torch_dist: .metadata and .distcp files, read by the driver in <zf/dcp.h>.
 * Errors: of the driver and of mg_save_common; ZF_E_FORMAT there is no .metadata. */
bool mg_torch_dist(struct mg_save *s, struct zf_err *err) ZF_CHECKED;
/* Degraded: tries to read .metadata of the directory i, and discards the result.  Errors: of the driver. */
bool mg_torch_dist_try(struct mg_save *s, uint32_t i, struct zf_err *err) ZF_CHECKED;
/* zarr (core 0.4 … 0.15): one directory per tensor, one file per chunk, one file per object.  Lists each directory
 * once and opens no chunk except the first of a compressed tensor, whose header must match .zarray. */
bool mg_zarr(struct mg_save *s, struct zf_err *err) ZF_CHECKED;
/* fsdp_dtensor (Megatron-FSDP) and torch_dcp (torch's FSDP2): Megatron's state dict as torch.distributed.checkpoint
 * flattens it, without Megatron's metadata.json.  Is st's root such a save?  Reads the beginning of .metadata;
 * `why`: the evidence. */
bool mg_fsdp_is(struct zf_store *st, char why[160]);
/* Errors: of the driver; ZF_E_FORMAT the recorded iteration is not that of the folder. */
bool mg_fsdp(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

/* The beginning of .metadata, at most *n bytes, malloc'ed; *n: bytes read.  NULL: it is missing or cannot be read. */
char *mg_metadata_head(struct zf_store *st, size_t *n);

/* Parses a key of a backend. */
typedef void mg_parse_fn(const char *key, size_t n, struct mg_key *out);
/* For torch_dist and fsdp_dtensor: reads .metadata and fills the lists of tensors and objects; the driver of <zf/dcp.h>
 * becomes the save's backend.  Errors: of the driver; of mg_save_draft and mg_save_object. */
bool mg_dcp_lists(struct mg_save *s, mg_parse_fn *parse, struct zf_err *err) ZF_CHECKED;
/* torch_dcp stores optimizer states under parameter ids.  Gives the listed masters and states the names of their
 * parameters, which masters prove: either all of them or, with a note, none.  Does nothing without masters.
 * Errors: of reading; ZF_E_NOMEM. */
bool mg_fsdp_ids(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

/* ---- parameters from the tensors ---- */

/* Makes parameters from the stored weights and optimizer states: one per layer and expert if the axes
 * are found, else one per tensor.  Sets `sliced` of each tensor.
 * Errors: ZF_E_LIMIT tensors; ZF_E_NOMEM. */
bool mg_axes_slice(struct mg_save *s, struct zf_err *err) ZF_CHECKED;
/* Adds a joined parameter for each that is only listed in parts, if these have one dtype and equal shapes
 * except for dimension 0, and marks its parts.
 * Errors: ZF_E_LIMIT tensors; ZF_E_NOMEM. */
bool mg_parts_join(struct mg_save *s, struct zf_err *err) ZF_CHECKED;
/* Checks that the masters round to the weights.  Compares the first and last elements of each, several masters at
 * once; in a large save only a sample, with every layer.
 * If one does not round to its weight, sets masters_doubted, and a note names it.
 * Errors: of reading, except of bytes that are lost in a degraded build. */
bool mg_masters_check(struct mg_save *s, struct zf_err *err) ZF_CHECKED;
/* Adds the states of every parameter that is proved to be completely in the buffers, and notes what is
 * mapped, and why the rest is not.  Pre: all other parameters are listed.  The first and last
 * ZF_VALUES_ENDS elements of each piece are compared.
 * Errors: of reading and of the build. */
bool mg_buckets_map(struct mg_save *s, const struct flat_buffers *buffers,
                    struct zf_err *err) ZF_CHECKED;
/* Shows everything in the save at its path in the tree, by the rules of zerofs(5):
 * parameters, stacked/, bucket/, extra/.  Errors: of the build. */
bool mg_place(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

/* verl's Megatron saves: up to three saves of Megatron-core, each in its own directory, and the weights as Hugging Face
 * files, instead of the first save or in addition to it. */

/* Is st's root such a save, finished or not?  Then *out describes it. */
bool mg_verl_probe(struct zf_store *st, const struct zf_limits *lim, struct zf_probe *out);

/* For a save of verl, sets `in_parts`, `dir`, `n_dirs` (0: without Megatron's format) and `foreign_weights`, and checks that
 * everything named in ckpt_contents.json is present.  Other saves are not changed.
 * Errors: ZF_E_FORMAT that file, or one that it names, is damaged or missing; ZF_E_UNSUPPORTED another schema_version. */
bool mg_verl_find(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

/* Is model/dist_ckpt a save of Megatron-FSDP, which also contains the optimizer? */
bool mg_verl_is_fsdp(struct zf_store *st);

/* If only one of the directories of a verl save was opened, notes where the whole save is. */
bool mg_verl_note_above(const struct zf_save *save, const struct zf_open_opts *o,
                        struct zf_build *b, struct zf_err *err) ZF_CHECKED;

/* Shows the tensors of model/huggingface in the root.  Errors: ZF_E_FORMAT a file is missing or damaged. */
bool mg_verl_weights(struct mg_save *s, struct zf_err *err) ZF_CHECKED;

/* Megatron's oldest format: one torch.save file per model-parallel rank. */

/* Is save->store the folder of an iteration, with mp_rank_* folders that each have one file?  Errors: of
 * the store. */
bool legacy_probe(const struct zf_save *save, const struct zf_open_opts *o, struct zf_probe *out,
                  struct zf_err *err) ZF_CHECKED;
bool legacy_open(const struct zf_save *save, const struct zf_open_opts *o, struct zf_build *b,
                 struct zf_err *err) ZF_CHECKED;

#endif

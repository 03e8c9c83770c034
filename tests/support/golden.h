/* SPDX-License-Identifier: Apache-2.0 */
/* Real checkpoints against the digests their own frameworks made: tests/data/<dir>/expected.json.
 * Every function fails the running test with a sentence when something is not as expected. */
#ifndef TESTS_SUPPORT_GOLDEN_H
#define TESTS_SUPPORT_GOLDEN_H

#include <jansson.h>

#include "unit.h"

#include <zf/find.h>

/* The path of a file or directory below tests/data (in a static buffer). */
const char *golden_path(const char *rel);

/* The JSON document tests/data/<rel>; give it back with json_decref. */
json_t *golden_json(const char *rel);

/* The directory as a store; give it back with zf_store_unref. */
struct zf_store *golden_dir(const char *path);

/* Opens a store as zerofs would; o may be NULL for the defaults, and lack limits.  NULL if it fails:
 * *err_out tells how. */
struct zf_checkpoint *golden_try(struct zf_store *st, const struct zf_open_opts *o,
                                 struct zf_err *err_out);

/* Opening it must fail with this code and a sentence with this part. */
void golden_try_refused(struct zf_store *st, enum zf_code code, const char *part);

/* Opens tests/data/<rel> as zerofs would; o may be NULL for the defaults. */
struct zf_checkpoint *golden_open(const char *rel, const struct zf_open_opts *o);

/* Opening it must fail so: *err_out tells how. */
void golden_refused(const char *rel, const struct zf_open_opts *o, struct zf_err *err_out);

/* The tensor `name` of `set` must have the dtype, shape and SHA-256 of want, read in one piece and
 * again in small ones.  Members of want that are absent are not compared. */
void golden_tensor(const struct zf_checkpoint *c, const char *set, const char *name,
                   const json_t *want);

/* Every member of `tensors` that has a "sha256" must be in `set` under its key.  Returns how many
 * were compared. */
size_t golden_tensors(const struct zf_checkpoint *c, const char *set, const json_t *tensors);

/* golden_open, then golden_tensors of expected.json's "tensors" in the root set, then nothing else
 * in it. */
void golden_root(const char *rel);

/* The blob at that path in the tree, or NULL. */
const struct zf_blob *golden_blob(const struct zf_checkpoint *c, const char *path);

/* Is there a note with this part? */
bool golden_note(const struct zf_checkpoint *c, const char *part);

#endif

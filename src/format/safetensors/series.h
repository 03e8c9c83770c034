/* SPDX-License-Identifier: Apache-2.0 */
/* Checks by their names that numbered safetensors files are complete: without an index nothing else shows
 * that one is missing. */
#ifndef FORMAT_SAFETENSORS_SERIES_H
#define FORMAT_SAFETENSORS_SERIES_H

#include <zf/assemble/files.h>
#include <zf/assemble/st_files.h>

/* True if the file is one of a numbered series, as the Hugging Face writers name them. */
bool st_series(const char *file, struct zf_series *out);

/* Checks that no file is missing by the names of the n entries (in natural order): <stem>-00001-of-N
 * to N; of shard-RRRRR-model-FFFFF-of-NNNNN every rank from 1 on, and each F of some rank.  With
 * -o degraded a missing one is noted, and a missing rank is marked in `files`.  Errors: ZF_E_FORMAT. */
bool st_series_check(struct zf_st_files *files, const struct zf_entry *e, size_t n,
                     struct zf_build *b, struct zf_err *err) ZF_CHECKED;

#endif

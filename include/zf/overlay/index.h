/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of a mounted checkpoint as one JSON document: /.zerofs/index.json.  Its schema is
 * documented in zerofs(5) and only ever grows. */
#ifndef ZF_OVERLAY_INDEX_H
#define ZF_OVERLAY_INDEX_H

#include <jansson.h>

#include <zf/model/model.h>

/* One tensor: {"set","name","file","dtype","shape","bytes"} and, where it applies, "alias_of",
 * "lost".  Returns a reference, or NULL if memory ran out. */
json_t *zf_index_tensor(const struct zf_set *s, const struct zf_tensor *t);

/* Its shape, an array of extents. */
json_t *zf_index_shape(const struct zf_tensor *t);

/* The notes of a checkpoint; a reference or NULL, as above. */
json_t *zf_index_notes(const struct zf_checkpoint *c);

/* Callback for zf_store_hosts; hosts: a JSON array, to which {"host", "requests", "retries", "bytes", "cache_hits",
 * "errors"} is added. */
void zf_index_add_host(void *hosts, const struct zf_host_stats *s);

/* The whole document as text, malloc'ed; one line per tensor. */
char *zf_index_text(const struct zf_checkpoint *c, size_t *n_out, struct zf_err *err) ZF_CHECKED;

/* j, which is taken, as text for a file of /.zerofs; malloc'ed, *n_out bytes (may be NULL).
 * Errors: ZF_E_NOMEM, also when j is NULL. */
char *zf_index_dump(json_t *j, size_t *n_out, struct zf_err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REMOTE_AUTOINDEX_JSON_H
#define REMOTE_AUTOINDEX_JSON_H

#include "entries.h"

/* As autoindex_read, of a JSON document. */
bool autoindex_json(const char *body, uint64_t n, const struct zf_limits *lim, struct entries *out,
                    struct zf_err *err) ZF_CHECKED;

#endif

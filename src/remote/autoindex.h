/* SPDX-License-Identifier: Apache-2.0 */
/* Directory listings as web servers write them: JSON (nginx, Caddy) and HTML (nginx, Apache, lighttpd,
 * Python's http.server, Go's FileServer).  Bytes in, names out; nothing is asked for here. */
#ifndef REMOTE_AUTOINDEX_H
#define REMOTE_AUTOINDEX_H

#include "entries.h"

/* Adds what the listing body[n] of the directory at `url` (absolute, with a '/' at its end) says.
 * type: its Content-Type, or NULL.
 * Errors: ZF_E_UNSUPPORTED this is no listing that is known here; ZF_E_FORMAT it is, and cut short or
 * contradicts itself; ZF_E_LIMIT dir_entries, json_bytes, json_depth; ZF_E_NOMEM. */
bool autoindex_read(const char *body, uint64_t n, const char *type, const char *url,
                    const struct zf_limits *lim, struct entries *out,
                    struct zf_err *err) ZF_CHECKED;

/* The same of an HTML page (autoindex_html.c), and of a JSON document (autoindex_json.c). */
bool autoindex_html(const char *body, uint64_t n, const char *url, struct entries *out,
                    struct zf_err *err) ZF_CHECKED;
bool autoindex_json(const char *body, uint64_t n, const struct zf_limits *lim, struct entries *out,
                    struct zf_err *err) ZF_CHECKED;

#endif

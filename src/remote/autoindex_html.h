/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REMOTE_AUTOINDEX_HTML_H
#define REMOTE_AUTOINDEX_HTML_H

#include "entries.h"

/* As autoindex_read, of an HTML page. */
bool autoindex_html(const char *body, uint64_t n, const char *url, struct entries *out,
                    struct zf_err *err) ZF_CHECKED;

#endif

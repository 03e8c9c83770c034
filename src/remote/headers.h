/* SPDX-License-Identifier: Apache-2.0 */
/* Header lines of a request, "Name: value".  Some contain secrets, so none is logged and all are wiped. */
#ifndef REMOTE_HEADERS_H
#define REMOTE_HEADERS_H

#include <zf/base/err.h>

struct headers {
    char *line[16]; /* malloc'ed */
    size_t n;
};

/* Adds a line.  Errors: ZF_E_USAGE it contains a line break, which would start another header; ZF_E_LIMIT too many lines;
 * ZF_E_NOMEM. */
bool headers_add(struct headers *h, const char *name, const char *value,
                 struct zf_err *err) ZF_CHECKED;
bool headers_add_line(struct headers *h, const char *line, struct zf_err *err) ZF_CHECKED;

void headers_fini(struct headers *h);
static inline void zf_auto_headers(struct headers *h)
{
    headers_fini(h);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What came of a request, for those who asked; and the headers that signing adds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http.h"

void http_reply_fini(struct http_reply *r)
{
    free(r->body);
    free(r->url);
    free(r->head);
    *r = (struct http_reply){.status = 0};
    r->object = HTTP_OBJECT_UNKNOWN;
}

char *http_header(const struct http_reply *r, const char *name, bool first)
{
    size_t n = strlen(name);
    const char *value = NULL, *line = r->head ? r->head + (first ? 0 : r->last) : "";
    bool begun = false;

    /* Of several answers the next one begins with a status line again. */
    for (; *line && !(begun && strncmp(line, "HTTP/", 5) == 0); begun = true) {
        if (strncasecmp(line, name, n) == 0 && line[n] == ':') {
            value = line + n + 1;
        }
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    if (!value) {
        return NULL;
    }
    value += strspn(value, " \t");
    size_t len = strcspn(value, "\r\n");
    while (len && (value[len - 1] == ' ' || value[len - 1] == '\t')) {
        len--;
    }
    return strndup(value, len);
}

bool auth_add(struct auth_headers *h, const char *name, const char *value, struct zf_err *err)
{
    char *line = NULL;

    if (h->n == sizeof h->line / sizeof h->line[0]) {
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "more than %zu headers to sign with", h->n);
    }
    if (strpbrk(value, "\r\n")) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "a line break in the value of %s would begin another header", name);
    }
    if (asprintf(&line, "%s: %s", name, value) < 0) {
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    }
    h->line[h->n++] = line;
    return true;
}

void auth_headers_fini(struct auth_headers *h)
{
    while (h->n) {
        free(h->line[--h->n]);
    }
}

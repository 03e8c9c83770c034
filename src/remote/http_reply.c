/* SPDX-License-Identifier: Apache-2.0 */
/* Accessors for the result of a request. */
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

char *http_header(const struct http_reply *r, const char *name)
{
    size_t n = strlen(name);
    const char *value = NULL, *line = r->head ? r->head + r->last : "";

    while (*line) {
        if (strncasecmp(line, name, n) == 0 && line[n] == ':')
            value = line + n + 1;
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    if (!value)
        return NULL;
    value += strspn(value, " \t");
    size_t len = strcspn(value, "\r\n");
    while (len && (value[len - 1] == ' ' || value[len - 1] == '\t'))
        len--;
    return strndup(value, len);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "headers.h"

#include <stdio.h>
#include <string.h>

#include "settings.h"

/* Adds the line, which it owns from now on; a NULL line means that memory ran out. */
static bool headers_take(struct headers *h, char *line, struct zf_err *err)
{
    zf_auto(secret) char *gone = line;

    if (!line)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    if (strpbrk(line, "\r\n")) {
        return zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                       "a line break in the value of %.*s would begin another header",
                       (int)strcspn(line, ":\r\n"), line);
    }
    if (h->n == sizeof h->line / sizeof h->line[0])
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "the request has more than %zu headers", h->n);
    h->line[h->n++] = zf_give(gone);
    return true;
}

bool headers_add(struct headers *h, const char *name, const char *value, struct zf_err *err)
{
    char *line = NULL;

    return headers_take(h, asprintf(&line, "%s: %s", name, value) < 0 ? NULL : line, err);
}

bool headers_add_line(struct headers *h, const char *line, struct zf_err *err)
{
    return headers_take(h, strdup(line), err);
}

void headers_fini(struct headers *h)
{
    while (h->n)
        secret_free(h->line[--h->n]);
}

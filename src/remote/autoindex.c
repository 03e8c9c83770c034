/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the reader of a listing: JSON or HTML. */
#include "listings.h"

#include <string.h>
#include <strings.h>

static bool autoindex_is_json(const char *body, uint64_t n, const char *type)
{
    if (type)
        return strncasecmp(type, "application/json", strlen("application/json")) == 0;
    for (uint64_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n", body[i]))
            return body[i] == '[';
    return false;
}

bool autoindex_read(const char *body, uint64_t n, const char *type, const char *url,
                    const struct zf_limits *lim, struct entries *out, struct zf_err *err)
{
    return autoindex_is_json(body, n, type) ? autoindex_json(body, n, lim, out, err)
                                            : autoindex_html(body, n, url, out, err);
}

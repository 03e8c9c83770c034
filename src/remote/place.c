/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <stdlib.h>
#include <string.h>

bool place_init(struct place *p, const struct place_ops *ops, const struct place_new *n,
                struct zf_err *err)
{
    p->ops = ops;
    p->http = n->http;
    p->options = n->options;
    p->shown = strdup(n->address);
    return p->shown || zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
}

void place_fini(struct place *p)
{
    free(p->shown);
    p->shown = NULL;
}

struct http_ask place_ask(const struct place_at *at)
{
    return (struct http_ask){
        .url = at->url, .header = &at->header, .n_header = at->header != NULL, .auth = at->auth};
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The listing of one directory of a bucket: the pages of ListObjectsV2 with delimiter "/", in their
 * order.  What the server says is checked against what was asked: every key below the prefix, no
 * name that no path can have, no file and directory of one name, no page that leads nowhere. */
#ifndef ZF_REMOTE_S3_LIST_H
#define ZF_REMOTE_S3_LIST_H

#include <zf/base/out.h>

#include "entries.h"

struct list_token;
struct s3_list {
    const char *prefix;        /* "" or ending in '/'; borrows */
    struct entries *out;       /* borrows */
    bool marker;               /* the directory itself is an object, "prefix/" */
    bool more;                 /* there is a next page, which `token` asks for */
    struct zf_out token;       /* raw */
    struct list_token *tokens; /* seen so far; uthash */
    unsigned idle;             /* pages in a row that brought nothing new */
};

/* Adds the entries of a page; `more` and `token` say what to ask for next.
 * Errors: ZF_E_FORMAT with the byte, or the key; those of entries_add. */
bool s3_list_page(struct s3_list *l, const void *p, size_t n, struct zf_err *err) ZF_CHECKED;

void s3_list_fini(struct s3_list *l);

static inline void zf_auto_s3_list(struct s3_list *l)
{
    s3_list_fini(l);
}

#endif

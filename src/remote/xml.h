/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of object stores: small XML documents, read by expat.  Beyond its own
 * checks, a document type is refused, so that no entity can be declared; depth and texts are bounded. */
#ifndef ZF_REMOTE_XML_H
#define ZF_REMOTE_XML_H

#include <zf/base/err.h>

#define XML_DEPTH 16 /* elements in each other */
#define XML_TEXT                                                                                   \
    (64u << 10) /* bytes of text in one element; a key has 1024 at most, encoded 3072 */

struct xml_event {
    const char *path; /* "ListBucketResult/Contents/Key"; prefixes of name spaces left out */
    bool open;        /* the element begins, nothing is known of its text */
    const char *text; /* of the element itself; terminated, but may hold zero bytes of no kind */
    size_t n;
};

/* Called at each element's begin and end, in the document's order.  False, with *err: stop. */
typedef bool xml_fn(void *ctx, const struct xml_event *e, struct zf_err *err);

/* Walks through p[n].  Errors: ZF_E_FORMAT with the byte; ZF_E_LIMIT; ZF_E_UNSUPPORTED without
 * expat; those of fn. */
bool xml_walk(const void *p, size_t n, xml_fn *fn, void *ctx, struct zf_err *err) ZF_CHECKED;
/* Errors: ZF_E_UNSUPPORTED, zerofs was built without expat. */
bool xml_ready(struct zf_err *err) ZF_CHECKED;

#endif

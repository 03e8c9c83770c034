/* SPDX-License-Identifier: Apache-2.0 */
/* Parser for the responses of object stores, small XML documents, on top of expat.  In addition to expat's checks a document
 * type is refused, so that no entity can be declared, and depth and text lengths are limited. */
#ifndef ZF_REMOTE_XML_H
#define ZF_REMOTE_XML_H

#include <zf/base/err.h>

#define XML_DEPTH 16 /* maximum nesting of elements */
#define XML_TEXT                                                                                   \
    (64u << 10) /* bytes of text in one element; a key has 1024 at most, encoded 3072 */

struct xml_event {
    const char *path; /* "ListBucketResult/Contents/Key", without namespace prefixes */
    bool open;        /* the element begins; its text is not known yet */
    const char *text; /* the element's own text, terminated; contains no zero bytes */
    size_t n;
};

/* Called at the beginning and end of each element, in document order.  Returning false, with *err set, stops the parser. */
typedef bool xml_fn(void *ctx, const struct xml_event *e, struct zf_err *err);

/* Parses the document p[n].  Errors: ZF_E_FORMAT with the offset; ZF_E_LIMIT; ZF_E_UNSUPPORTED built without expat; those
 * of fn. */
bool xml_walk(const void *p, size_t n, xml_fn *fn, void *ctx, struct zf_err *err) ZF_CHECKED;
/* Checks that XML can be parsed.  Errors: ZF_E_UNSUPPORTED, zerofs was built without expat. */
bool xml_ready(struct zf_err *err) ZF_CHECKED;

#endif

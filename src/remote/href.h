/* SPDX-License-Identifier: Apache-2.0 */
/* The target of a link in a listing.  The rule, for a listing of the directory at `base`:
 *
 * - links of sorting (?C=N), anchors (#top), other schemes, other hosts, the directory itself and
 *   what is above or beside it are passed over: pages have such links;
 * - so is what lies deeper than one step (a/b), which no listing of this directory has;
 * - what is left is an entry: its name is percent-decoded once, a '/' at its end says directory. */
#ifndef REMOTE_HREF_H
#define REMOTE_HREF_H

#include <zf/base/out.h>

/* The text of an HTML attribute: character references are undone (&amp; &lt; &gt; &quot; &apos; &nbsp;
 * and numbers). */
void href_text(struct zf_out *out, const char *p, size_t n);

/* ref: the link, of ref_n bytes, as text.  base: absolute URL of the directory, with a '/' at its end.
 * True: an entry, its name is in *name (which is emptied first); a name that cannot be decoded (%00, %zz)
 * is left as it is, with a '/' behind it, so that it is none. */
bool href_entry(const char *base, const char *ref, size_t ref_n, struct zf_out *name,
                bool *dir_out);

#endif

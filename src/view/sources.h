/* SPDX-License-Identifier: Apache-2.0 */
/* user.zerofs.sources: of which bytes of which files a tensor is made, so that a program can put it
 * together from them; see zerofs(5). */
#ifndef VIEW_SOURCES_H
#define VIEW_SOURCES_H

#include <zf/base/out.h>
#include <zf/model/model.h>

/* Writes the list as JSON, at most cap bytes; what does not fit is counted in its last entry.
 * served: the type of the file that is asked about. */
void sources_put(const struct zf_tensor *t, enum zf_dtype served, size_t cap, struct zf_out *o);

#endif

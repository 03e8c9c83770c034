/* SPDX-License-Identifier: Apache-2.0 */
/* Which names a directory lists (-o show=). */
#ifndef VIEW_SHOW_H
#define VIEW_SHOW_H

#include "nodes.h"
#include "shelf.h"

/* The presentations that a set lists, and as/ if it does: bits of enum zf_show.  A set is the root,
 * another one, or either of them below as/. */
uint32_t show_in_set(uint32_t show, const struct zf_set *set, bool cast);

/* Hides the directories beside the weights of c that were not asked for: optim/, stored/ and so on, also
 * those of a model-parallel rank; by default trained/, where each tensor is one of the weights, and extra/, where all of it is told elsewhere. */
void show_hide_dirs(struct nodes *ns, uint32_t show, const struct zf_checkpoint *c);

#endif

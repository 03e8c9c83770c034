/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in files beside the saves of a run: something that was left there, or a model that was published. */
#ifndef FIND_LOOSE_H
#define FIND_LOOSE_H

#include <zf/find.h>

#include "match.h"

/* Does m fit nothing but files of weights, with no manifest that says what belongs to them? */
bool loose_fits(const struct match *m);

/* Are these files a whole save all the same?  An index, boxes or the names of all ranks say so; of plain safetensors a
 * config.json beside them, as transformers' trainer leaves them beside checkpoint-N.  With torch.save files, which
 * converters leave beside saves of every kind, all saves have those names, too. */
bool loose_is_model(struct zf_store *st, const struct match *m, const struct zf_saves *s);

/* The saves in st that were finished, of the directories that are called as saves are, and the one that is
 * `named` as the latest, or NULL.  Errors: of the store; ZF_E_NOMEM. */
bool loose_saves(struct zf_store *st, const char *named, const struct zf_limits *lim,
                 struct zf_saves *out, struct zf_err *err) ZF_CHECKED;

/* "the files in this directory are shown; checkpoint-500 next to them is a save …"; s is empty: note
 * stays as it is. */
void loose_note_saves(const struct zf_saves *s, char *note, size_t n);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The model-parallel ranks of a save. */
#ifndef FORMAT_DEEPSPEED_RANKS_H
#define FORMAT_DEEPSPEED_RANKS_H

#include "rank.h"

struct ds_ranks {
    struct ds_rank *rank; /* [n] sorted by mp */
    uint32_t n;
    struct ds_rank *now; /* whose files are being read, or NULL */
};

/* Divides the files of the directory into those of each rank.
 * Errors: ZF_E_FORMAT a rank has no files; degraded: it is noted. */
bool ds_ranks_list(struct ds_save *ds, struct ds_ranks *out, struct zf_err *err) ZF_CHECKED;
/* The first rank whose model-states file could be read, or NULL. */
const struct ds_rank *ds_ranks_first(const struct ds_ranks *all);
/* Degraded: takes out the ranks of which no model-states file can be read, unless they are stages of a
 * pipeline (their layers' files and the optimizer's are enough) or the only one, whose parameters the
 * optimizer's files name.
 * Errors: ZF_E_FORMAT there is no other rank. */
bool ds_ranks_drop(struct ds_save *ds, struct ds_ranks *all, struct zf_err *err) ZF_CHECKED;
/* Settles tp and pp of ds, and each rank's place, once the ranks are read.
 * Errors: ZF_E_FORMAT what is recorded does not go with the files. */
bool ds_ranks_mesh(struct ds_save *ds, struct ds_ranks *all, struct zf_err *err) ZF_CHECKED;
/* Files that are read from here on are of that rank, until the next one. */
void ds_ranks_enter(struct ds_save *ds, struct ds_ranks *all, struct ds_rank *mp);
void ds_ranks_fini(struct ds_save *ds, struct ds_ranks *all);

#endif

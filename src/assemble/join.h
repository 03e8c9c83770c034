/* SPDX-License-Identifier: Apache-2.0 */
/* Joins what the ranks of one save wrote into files of their own: DTensors, ShardedTensors, and
 * plain tensors that every rank has a copy of. */
#ifndef ASSEMBLE_JOIN_H
#define ASSEMBLE_JOIN_H

#include <zf/assemble/coord.h>
#include <zf/assemble/torch_place.h>
#include <zf/codec/torch.h>

struct join;
struct part;

/* A rank's file: its coordinates, and the references kept of it. */
struct join_file {
    const char *path;
    struct zf_coord at;
    bool extra;               /* no weights in here: its plain tensors are under extra/ */
    struct part *part, *last; /* in the order of the file */
};

/* mesh: of the places that have a file.  Borrows b, names and lim until it is freed. */
struct join *join_new(struct zf_build *b, struct zf_names *names, const struct zf_mesh *mesh,
                      const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
void join_free(struct join *j); /* NULL is fine */
static inline void zf_auto_join(struct join **j)
{
    join_free(*j);
}

/* Keeps what the file says of its tensors in *file, which must stay where it is; f's zf_torch may be
 * freed then.  Damage in a tensor is no failure yet, it is met by join_kept.
 * Errors: of zf_torch_visit, of memory. */
bool join_keep(struct join *j, const struct zf_place_file *f, struct join_file *file,
               struct zf_err *err) ZF_CHECKED;

/* Joins what was kept.  All names must have been seen, and files come in ascending order.
 * Errors: ZF_E_FORMAT ranks disagree about a tensor, a piece has not the size that its place says;
 * those of reading. */
bool join_kept(struct join *j, const struct join_file *file, struct zf_err *err) ZF_CHECKED;

/* The same for a file that is open still, leaf by leaf: whose leaves come next, and the `take` of a
 * zf_place_file, ctx = the join.  Plain tensors are taken where the mesh has several places. */
bool join_file(struct join *j, const struct join_file *file, struct zf_torch *torch,
               struct zf_err *err) ZF_CHECKED;
bool join_take(void *ctx, const struct zf_leaf *leaf, bool *taken, struct zf_err *err) ZF_CHECKED;

/* Places the plain tensors, in the order in which they came: see replicas.h.  Then checks that the
 * save had as many ranks as there are files.
 * Errors: ZF_E_FORMAT a rank's file is missing or of another save. */
bool join_finish(struct join *j, struct zf_err *err) ZF_CHECKED;

/* Values that the files of all ranks repeat must be equal, or the files are of different saves. */

struct ranks_values;

/* Takes the steps, settings and schedules out of a file.  path is copied; borrows nothing afterwards.
 * Errors: ZF_E_LIMIT, ZF_E_NOMEM, those of reading a tensor. */
struct ranks_values *ranks_values_new(struct zf_torch *t, const char *path,
                                      const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
void ranks_values_free(struct ranks_values *s); /* NULL is fine */
static inline void zf_auto_ranks_values(struct ranks_values **s)
{
    ranks_values_free(*s);
}

/* Do two ranks' files of one kind say the same?  Errors: ZF_E_FORMAT naming both files and both values. */
bool ranks_values_compare(struct ranks_values *s, struct ranks_values *first,
                          struct zf_err *err) ZF_CHECKED;

#endif

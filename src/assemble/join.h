/* SPDX-License-Identifier: Apache-2.0 */
/* Joins the files that the ranks of one save wrote: DTensors, ShardedTensors, and plain tensors that
 * every rank has a copy of. */
#ifndef ASSEMBLE_JOIN_H
#define ASSEMBLE_JOIN_H

#include <zf/assemble/coord.h>
#include <zf/assemble/torch_place.h>
#include <zf/codec/torch.h>

struct join;
struct part;

/* A rank's file: its coordinates, and the references to its tensors. */
struct join_file {
    const char *path;
    struct zf_coord at;
    bool extra;               /* a file without weights: its plain tensors are under extra/ */
    struct part *part, *last; /* in the order of the file */
};

/* mesh: the mesh of the ranks that have a file.  Borrows b, names and lim until it is freed. */
struct join *join_new(struct zf_build *b, struct zf_names *names, const struct zf_mesh *mesh,
                      const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
void join_free(struct join *j); /* NULL is fine */
static inline void zf_auto_join(struct join **j)
{
    join_free(*j);
}

/* Stores in *file, which must not be moved, references to the file's tensors; f's zf_torch may be
 * freed afterwards.  Damage in a tensor is reported later, by join_kept.
 * Errors: of zf_torch_visit, of memory. */
bool join_keep(struct join *j, const struct zf_place_file *f, struct join_file *file,
               struct zf_err *err) ZF_CHECKED;

/* Joins the tensors of a file that join_keep stored.  Call it after all names were seen, in ascending
 * order of files.  Errors: ZF_E_FORMAT ranks disagree about a tensor, or a piece's size does not fit
 * its box; those of reading. */
bool join_kept(struct join *j, const struct join_file *file, struct zf_err *err) ZF_CHECKED;

/* The same for an open file, leaf by leaf: join_file sets the file whose leaves follow, and join_take
 * is the `take` of a zf_place_file, ctx = the join.  Takes plain tensors if there are several ranks. */
bool join_file(struct join *j, const struct join_file *file, struct zf_torch *torch,
               struct zf_err *err) ZF_CHECKED;
bool join_take(void *ctx, const struct zf_leaf *leaf, bool *taken, struct zf_err *err) ZF_CHECKED;

/* Adds the plain tensors, in the order they came (replicas_place), and checks that the save had as
 * many ranks as there are files.
 * Errors: ZF_E_FORMAT a rank's file is missing or belongs to another save. */
bool join_finish(struct join *j, struct zf_err *err) ZF_CHECKED;

/* Values that the files of all ranks repeat must be equal, or the files belong to different saves. */

struct ranks_values;

/* Collects the steps, settings and schedules of a file.  path is copied; nothing is borrowed.
 * Errors: ZF_E_LIMIT, ZF_E_NOMEM, those of reading a tensor. */
struct ranks_values *ranks_values_new(struct zf_torch *t, const char *path,
                                      const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
void ranks_values_free(struct ranks_values *s); /* NULL is fine */
static inline void zf_auto_ranks_values(struct ranks_values **s)
{
    ranks_values_free(*s);
}

/* Compares the values of two ranks' files of one kind.  Errors: ZF_E_FORMAT names both files and values. */
bool ranks_values_compare(struct ranks_values *s, struct ranks_values *first,
                          struct zf_err *err) ZF_CHECKED;

#endif

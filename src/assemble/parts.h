/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of the tensors in all ranks' files, which outlive the files' pickles. */
#ifndef ASSEMBLE_PARTS_H
#define ASSEMBLE_PARTS_H

#include <zf/assemble/coord.h>
#include <zf/assemble/tensor_ref.h>
#include <zf/assemble/torch_place.h>
#include <zf/assemble/values.h>
#include <zf/base/out.h>
#include <zf/base/table.h>
#include <zf/base/vec.h>
#include <zf/codec/dtensor.h>

/* A tensor that several ranks saved whole: one tensor if their copies are equal. */

struct replica {
    struct replica *next;
    const struct zf_tensor_ref *ref;
    const char *file;
    struct zf_coord at;
};

/* The copies of one tensor, in the order in which they are compared; {0} has none. */
struct replicas {
    struct replica *first, *last;
    bool extra; /* not a weight: shown under extra/ */
};

struct replicas_place {
    struct zf_build *b;
    struct zf_names *names;
    struct zf_mesh mesh;
    struct zf_copy_check check;
};

/* Places the tensor of that path: once where all who have it hold the same, else each copy under
 * extra/<key>.<place>, with a note.  Two copies are compared as zf_copy_check_equal says.
 * Errors: of the build; of the sources. */
bool replicas_place(struct replicas_place *p, struct zf_path path, const struct replicas *r,
                    struct zf_err *err) ZF_CHECKED;

/* A path that several files have.  The last file's description is shared by files that repeat it. */
struct part_key {
    UT_hash_handle hh; /* key: the path's steps, each with its length before it */
    struct zf_path path;
    const struct zf_dtensor *dt; /* without coordinates and local tensor */
    const struct zf_sharded *st; /* without local shards */
    const struct zf_tensor_ref *ref;
    struct replicas copies;
    const struct zf_err *odd; /* not NULL: why the value of odd_file is not understood as a piece */
    const char *odd_file;
    bool noted;        /* there was a note on that */
    bool composed;     /* a file's local tensor is composed of others */
    const char *attrs; /* if composed: the first file's attributes (zf_torch_attrs) */
    struct composed_chunk *chunk, *last; /* if composed: its pieces (join_box.h) */
};

/* One of the tensors that a rank's piece of a composed tensor consists of (composed.h). */
struct part_piece {
    struct part_piece *next; /* in the order of the file */
    const char *name;
    bool is_number; /* a number instead of a tensor: no ref */
    struct zf_number number;
    struct zf_tensor_ref ref;
};

/* One file's part of a tensor. */
struct part {
    struct part *next; /* in the same file */
    struct part_key *key;
    enum zf_torch_kind kind; /* DENSE, DTENSOR, SHARDED; NOT: it could not be read */
    uint32_t n;
    const struct zf_tensor_ref *ref; /* [n] the local tensors */
    const struct part_piece *piece;  /* DTENSOR with a composed local tensor; n is 0 then */
    union {
        struct {
            const struct zf_dtensor *dt;
            const uint64_t *coord; /* [n_axes]; NULL: the rank is not in the mesh (n 0) */
        };
        struct {
            const struct zf_sharded *st;
            const struct zf_shard *shard; /* [n] their boxes */
        };
        const struct zf_err *why; /* kind NOT */
    };
};

/* {.keep.arena = a} is empty; borrows a. */
struct parts_kept {
    struct zf_keeper keep;
    struct part_key *keys; /* uthash, in the order of their first part */
    struct zf_out spelt;   /* the key of a path */
};
void parts_fini(struct parts_kept *p);

/* Reads a leaf of kind DENSE, DTENSOR or SHARDED of t, the file at path `file`; t may be freed afterwards, the path may not.
 * An error in the leaf is stored in the part, for join_kept to report.  NULL: ZF_E_NOMEM, ZF_E_LIMIT. */
struct part *parts_read(struct parts_kept *p, struct zf_torch *t, const struct zf_leaf *leaf,
                        const char *file, struct zf_err *err) ZF_CHECKED;

/* The key of a leaf of another kind, which is not a piece that could be joined.  NULL: as above. */
struct part_key *parts_add_odd(struct parts_kept *p, struct zf_torch *t, const struct zf_leaf *leaf,
                               const char *file, struct zf_err *err) ZF_CHECKED;

/* Texts for messages: "float32 [4, 6]"; "2 x 4 (Shard(0), Replicate)".  Both return out, of n bytes. */
const char *parts_describe(struct zf_type t, char *out, size_t n);
const char *parts_describe_mesh(const struct zf_dtensor *dt, char *out, size_t n);

/* Are both sharded in the same way? */
bool parts_same_mesh(const struct zf_dtensor *a, const struct zf_dtensor *b);

#endif

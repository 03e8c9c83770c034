/* SPDX-License-Identifier: Apache-2.0 */
/* Puts what torch.save files hold into a checkpoint under construction. */
#ifndef ZF_ASSEMBLE_TORCH_PLACE_H
#define ZF_ASSEMBLE_TORCH_PLACE_H

#include <zf/assemble/torch_visit.h>
#include <zf/codec/torch.h>
#include <zf/model/build.h>

/* One torch.save file that takes part in a checkpoint. */
struct zf_place_file {
    struct zf_torch *torch;
    const char *path; /* in the store, for messages */
    const char *head; /* first step of every path ("optimizer"), or NULL */
    bool extra;       /* no weights in here (RNG, schedulers): its tensors are under extra/ */
    bool bytes;       /* extra: the bytes that modules' get_extra_state gave are there, too */
    /* Asked first for every tensor: says in *taken whether it dealt with it.  May be NULL. */
    bool (*take)(void *ctx, const struct zf_leaf *leaf, bool *taken, struct zf_err *err);
    /* Is top-level key[n] one of those that are state/<key>.json?  NULL = all of them. */
    bool (*is_state)(void *ctx, const char *key, size_t n);
    void *ctx;
};

/* First pass over a file: shows its paths, and the parameter names of its optimizers, to names. */
bool zf_place_add_names(struct zf_names *names, const struct zf_place_file *f,
                        const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

/* Second pass: dense tensors, ties within the file, parts of composed tensors, the Python scalars
 * of optimizer entries, opaque bytes.  What has no bytes (meta) or is not understood becomes a
 * note. Errors: ZF_E_FORMAT a damaged tensor; of the build. */
bool zf_place_all(struct zf_build *b, struct zf_names *names, const struct zf_place_file *f,
                  const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

/* After that: notes how many of the file's storages no tensor shows.  Errors: of the note. */
bool zf_place_note_unread(struct zf_build *b, const struct zf_place_file *f,
                          struct zf_err *err) ZF_CHECKED;

/* The spot of a leaf, or one under extra/ when that is taken already. */
bool zf_place_spot(struct zf_build *b, struct zf_names *names, struct zf_path path,
                   struct zf_spot *out, struct zf_err *err) ZF_CHECKED;

/* Shows the values besides tensors: adds state/<name>.json with the whole value of
 * the file, or, name NULL, one state/<key>.json for each top-level key.  A key that holds nothing but
 * tensors has no file.  In the place of a tensor the JSON has {"__tensor__": "its path"}.  A value whose
 * JSON would be longer than text_bytes is reported in a note instead.  Errors: of the build. */
bool zf_state_add(struct zf_build *b, const struct zf_place_file *f, const char *name,
                  const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

#endif

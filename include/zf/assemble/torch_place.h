/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the contents of torch.save files into a checkpoint under construction. */
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
    bool extra;       /* it has no weights (RNG, schedulers): its tensors are shown under extra/ */
    bool bytes;       /* with extra: so are bytes returned by modules' get_extra_state */
    /* Called first for every tensor; sets *taken if it handled the tensor.  May be NULL. */
    bool (*take)(void *ctx, const struct zf_leaf *leaf, bool *taken, struct zf_err *err);
    /* True if top-level key[n] is shown as state/<key>.json.  NULL = all of them. */
    bool (*is_state)(void *ctx, const char *key, size_t n);
    void *ctx;
};

/* First pass over a file: adds its paths, and the parameter names of its optimizers, to names. */
bool zf_place_add_names(struct zf_names *names, const struct zf_place_file *f,
                        const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

/* Second pass: adds dense tensors, ties within the file, parts of composed tensors, the Python scalars of optimizer
 * entries, and opaque bytes.  Tensors without bytes (meta) or of unsupported kinds are noted.
 * Errors: ZF_E_FORMAT a damaged tensor; those of the build. */
bool zf_place_all(struct zf_build *b, struct zf_names *names, const struct zf_place_file *f,
                  const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

/* After that: notes how many of the file's storages belong to no shown tensor.  Errors: those of the note. */
bool zf_place_note_unread(struct zf_build *b, const struct zf_place_file *f,
                          struct zf_err *err) ZF_CHECKED;

/* Gives the spot of a leaf, or one under extra/ if that is already taken. */
bool zf_place_spot(struct zf_build *b, struct zf_names *names, struct zf_path path,
                   struct zf_spot *out, struct zf_err *err) ZF_CHECKED;

/* Shows the values that are not tensors: adds state/<name>.json with the whole value of the file or, if name is NULL,
 * one state/<key>.json per top-level key.  A key with only tensors gets no file.  The JSON has {"__tensor__": "its
 * path"} in place of a tensor.  A value whose JSON would be longer than text_bytes is reported in a note instead.
 * Errors: those of the build. */
bool zf_state_add(struct zf_build *b, const struct zf_place_file *f, const char *name,
                  const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What a torch.save file holds besides tensors, as JSON below state/. */
#ifndef ZF_ASSEMBLE_TORCH_JSON_H
#define ZF_ASSEMBLE_TORCH_JSON_H

#include <zf/assemble/torch_place.h>

/* Adds state/<name>.json with the whole value of the file, or, name NULL, one state/<key>.json for
 * each top-level key.  A key that holds nothing but tensors has no file.  In the place of
 * a tensor the JSON has {"__tensor__": "its path"}.  A value whose JSON would be longer than
 * text_bytes is reported in a note instead. Errors: of the build. */
bool zf_state_add(struct zf_build *b, const struct zf_place_file *f, const char *name,
                  const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

#endif

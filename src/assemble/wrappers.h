/* SPDX-License-Identifier: Apache-2.0 */
/* Words that wrappers of a model put into the names of its parameters.  FSDP1 takes its own word out of the
 * state dicts it makes, but not out of every list of names that is saved with them (the
 * `param_names` of an optimizer).  Source: torch/distributed/fsdp/_common_utils.py, FSDP_PREFIX
 * (1.12 … 2.14). */
#ifndef ASSEMBLE_WRAPPERS_H
#define ASSEMBLE_WRAPPERS_H

#include <zf/assemble/key_path.h>
#include <zf/base/out.h>
#include <zf/base/vec.h>

/* Room for a path without them; {0} is an empty one. */
struct wrappers {
    struct zf_out text;
    zf_vec(struct zf_step) step;
};

/* Takes "_fsdp_wrapped_module." out of every step of *path, which points into w then, until the next
 * call; a path without it stays as it is.  Errors: ZF_E_NOMEM. */
bool wrappers_off(struct wrappers *w, struct zf_path *path, struct zf_err *err) ZF_CHECKED;

void wrappers_fini(struct wrappers *w);

#endif

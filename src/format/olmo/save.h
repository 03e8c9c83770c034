/* SPDX-License-Identifier: Apache-2.0 */
/* State shared by all readers of OLMo's layouts while one save is opened. */
#ifndef OLMO_SAVE_H
#define OLMO_SAVE_H

#include <zf/assemble/names.h>
#include <zf/assemble/tensor_ref.h>
#include <zf/assemble/torch_ahead.h>
#include <zf/format.h>

struct olmo_save {
    struct zf_store *st;
    const char *file; /* the single file that was given, or NULL */
    const struct zf_open_opts *o;
    struct zf_build *b;
    struct zf_arena *a;
    struct zf_keeper keep; /* allocates from arena a */
    struct zf_torch_ahead files;
};

bool save_init(struct olmo_save *s, const struct zf_save *save, const struct zf_open_opts *o,
               struct zf_build *b, struct zf_err *err) ZF_CHECKED;
void save_fini(struct olmo_save *s);

/* The name, in the arena, without the wrappers of FSDP: every "_fsdp_wrapped_module." is removed.
 * Source: olmo/checkpoint.py and olmo/optim.py (0.2 ... 0.6), which remove the same string. */
const char *save_clean_name(struct zf_arena *a, const char *p, uint64_t n,
                            struct zf_err *err) ZF_CHECKED;

/* Shows a value that is not a tensor as state/<path>.json. */
bool save_value_json(struct olmo_save *s, struct zf_path path, const struct zf_pv *v,
                     struct zf_err *err) ZF_CHECKED;
/* Shows the settings of the optimizer's n parameter groups as state/optim.json. */
bool save_groups_json(struct olmo_save *s, const struct zf_pv *const *group, uint64_t n,
                      struct zf_err *err) ZF_CHECKED;

/* Reads the steps of up to 16 parameters, spread evenly, and notes where two differ, or differ from
 * the trainer's "global_step" by more than one.  Neither must be an error (a frozen or new parameter,
 * an optimizer that skips steps or was restarted), so nothing is refused.  Call it after everything
 * is drafted.  Errors: of the note; ZF_E_NOMEM. */
bool steps_note(struct olmo_save *s, struct zf_err *err) ZF_CHECKED;

#endif

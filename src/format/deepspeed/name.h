/* SPDX-License-Identifier: Apache-2.0 */
/* Names of parameters and states, as lists that are searched and as places in the tree. */
#ifndef FORMAT_DEEPSPEED_NAME_H
#define FORMAT_DEEPSPEED_NAME_H

#include <zf/assemble/names.h>
#include <zf/assemble/take.h>
#include <zf/codec/pickle.h>
#include <zf/model/build.h>

/* Some name of the checkpoint: any bytes. */
struct ds_name {
    const char *p;
    uint32_t n;
};
static inline struct zf_spot ds_spot(const char *set, struct ds_name name)
{
    return (struct zf_spot){set, name.p, name.n};
}

/* Number of bytes of a name that a message shows. */
static inline int ds_name_shown(struct ds_name name)
{
    return name.n < 100 ? (int)name.n : 100;
}

/* Is it there, and True? */
static inline bool ds_is_true(const struct zf_pv *v)
{
    bool yes = false;

    return zf_pv_bool(v, &yes) && yes;
}

/* Copies a text value into the arena; false (ZF_E_FORMAT, naming `what`) when it is no text. */
bool ds_name_of(struct zf_arena *a, const struct zf_pv *v, const char *what, struct ds_name *out,
                struct zf_err *err) ZF_CHECKED;
/* The same of a field; "" after a failure. */
struct ds_name ds_take_name(const struct zf_take *x);
/* Both, one behind the other, in the arena; .p = NULL: it has no room. */
struct ds_name ds_name_join(struct zf_arena *a, struct ds_name x, struct ds_name y,
                            struct zf_err *err) ZF_CHECKED;
bool ds_name_eq(struct ds_name a, struct ds_name b);
int ds_name_cmp(struct ds_name a, struct ds_name b);
/* Lists may be as long as a file makes them: they are sorted once and then searched. */
void ds_name_sort(struct ds_name *list, uint32_t n);
bool ds_name_listed(const struct ds_name *sorted, uint32_t n, struct ds_name name);
#endif

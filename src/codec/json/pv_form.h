/* SPDX-License-Identifier: Apache-2.0 */
/* Which JSON a composed value becomes, and its parts one by one. */
#ifndef CODEC_JSON_PV_FORM_H
#define CODEC_JSON_PV_FORM_H

#include "pv_out.h"

enum pvjson_form {
    ZF_PVJSON_AUTO,  /* not decided */
    ZF_PVJSON_DONE,  /* was written in one piece */
    ZF_PVJSON_SEQ,   /* array of the elements */
    ZF_PVJSON_MAP,   /* object of the pairs */
    ZF_PVJSON_ATTRS, /* __class__ and attributes */
    ZF_PVJSON_CALL,  /* __class__, args, kwargs, items, state */
    ZF_PVJSON_PERSID,
};

/* Decides.  A value without parts is written (DONE); *v may become the value it wraps. */
enum pvjson_form pvjson_form(struct zf_pvjson *o, const struct zf_pv **v);

struct pvjson_part {
    const char *name;        /* of an object: the key as text, or */
    const struct zf_pv *key; /* as a value */
    const struct zf_pv *v;   /* the value; NULL: the name of the class */
    enum pvjson_form form;
};

/* The part *at, which is moved on; false after the last. */
bool pvjson_next(const struct zf_pv *v, enum pvjson_form form, uint64_t *at,
                 struct pvjson_part *part);

#endif

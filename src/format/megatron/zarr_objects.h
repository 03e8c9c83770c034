/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FORMAT_MEGATRON_ZARR_OBJECTS_H
#define FORMAT_MEGATRON_ZARR_OBJECTS_H

#include "save.h"

/* Adds the objects in the directory `key`, if there are any.
 * Errors: ZF_E_FORMAT two files are the same object. */
bool mg_zarr_objects(struct mg_save *s, const char *key, struct zf_err *err) ZF_CHECKED;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* How OLMo names tensors in safetensors files: the name is urlsafe base64 of the pickle of
 * (path, value is pickled), as in gASVHwAAAAAAAACMFnRyYW5zZm9ybWVyLnd0ZS53ZWlnaHSUhZSJhpQu =
 * (('transformer.wte.weight',), False).  Source: olmo/safetensors_util.py (0.4 … 0.6). */
#ifndef OLMO_KEY64_H
#define OLMO_KEY64_H

#include <zf/assemble/key_path.h>
#include <zf/base/arena.h>
#include <zf/base/limits.h>

/* True if the first letters look like such a name: "gA" is the opcode PROTO with a protocol below 16. */
bool key64_looks(const char *name, size_t n);

/* Decodes the name; strings are allocated in a.  pickled: the tensor's bytes are a pickle of the value.
 * Errors: ZF_E_FORMAT it is not such a name; ZF_E_LIMIT; of the arena. */
bool key64_read(const char *name, size_t n, const struct zf_limits *lim, struct zf_arena *a,
                struct zf_path *out, bool *pickled, struct zf_err *err) ZF_CHECKED;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Settings from environment variables and small files; and wiping memory with secrets before it is freed. */
#ifndef REMOTE_SETTINGS_H
#define REMOTE_SETTINGS_H

#include <zf/base/auto.h>
#include <zf/base/err.h>
#include <zf/base/out.h>

/* Value of an environment variable; NULL: not set, or empty. */
const char *settings_env(const char *name);

/* Reads a small file into *out, which must be empty; out->p stays NULL if the file does not exist.
 * Errors: ZF_E_IO; ZF_E_LIMIT more than `most` bytes; the message names the path. */
bool settings_file(const char *path, size_t most, struct zf_out *out,
                   struct zf_err *err) ZF_CHECKED;

/* True if the text is visible ASCII only, so that it can be sent in a header. */
bool settings_is_word(const char *text);

/* Wipes and frees the text, which may be NULL. */
static inline void secret_free(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}
static inline void zf_auto_secret(char **text)
{
    secret_free(*text);
}
static inline void zf_auto_secret_out(struct zf_out *o)
{
    if (o->p)
        explicit_bzero(o->p, o->cap);
    zf_auto_out(o);
}

#endif

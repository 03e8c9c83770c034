/* SPDX-License-Identifier: Apache-2.0 */
/* Printing functions that several commands share. */
#ifndef ZF_CMD_PRINT_H
#define ZF_CMD_PRINT_H

#include <jansson.h>
#include <stdio.h>

#include <zf/base/out.h>
#include <zf/model/model.h>

/* Prints "[4096, 11008]"; returns its width. */
size_t print_shape(FILE *to, const struct zf_tensor *t);

/* A formatted number; `text` is valid until the end of the calling statement. */
struct number {
    char text[60];
};

/* "1.5 GiB"; exact below 1000; at most three digits before the point. */
struct number number_bytes(uint64_t n);
/* "7.24 B" for a number of elements: thousands K, millions M, billions B, trillions T, to three digits. */
struct number number_short(uint64_t n);
/* "1,234,567" */
struct number number_grouped(uint64_t n);
/* "1,234 tensors", "1 tensor" */
struct number number_of(uint64_t n, const char *what);

/* Prints a name from an untrusted file: on a terminal, control and unprintable characters become '?'. */
void print_name(FILE *to, const char *name);

/* Ends a command that made a document (freed here; NULL: out of memory): prints it as JSON, or by `text`.
 * Returns the exit code. */
int print_document(json_t *j, bool json, void (*text)(const json_t *j));

/* A member of such a document; "" or 0 if there is none. */
const char *print_text(const json_t *j, const char *key);
uint64_t print_number(const json_t *j, const char *key);

/* Adds `key` unchanged ("\"file\": ") and the value as a JSON string. */
void print_put_text(struct zf_out *out, const char *key, const char *text);

#endif

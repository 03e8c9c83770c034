/* SPDX-License-Identifier: Apache-2.0 */
/* Words that several commands print. */
#ifndef ZF_CMD_PRINT_H
#define ZF_CMD_PRINT_H

#include <jansson.h>
#include <stdio.h>

#include <zf/base/out.h>
#include <zf/model/model.h>

/* "[4096, 11008]"; gives its columns. */
size_t print_shape(FILE *to, const struct zf_tensor *t);

/* "1.5 GiB" for people; exact below 1024. */
void print_bytes(FILE *to, uint64_t n);
/* The same as a string. */
void print_bytes_in(char out[32], uint64_t n);

/* "7.24 B" of a number of elements: thousands K, millions M, billions B, trillions T, to three digits. */
void print_count_in(char out[32], uint64_t n);

/* A name from a stranger's file: on a terminal, what it would obey and cannot show becomes '?'. */
void print_name(FILE *to, const char *name);

/* The end of a command that made a document (taken; NULL: memory ran out): prints it as JSON, or by `text`.
 * Returns the exit code. */
int print_document(json_t *j, bool json, void (*text)(const json_t *j));

/* A member of such a document; "" or 0 where there is none. */
const char *print_text(const json_t *j, const char *key);
uint64_t print_number(const json_t *j, const char *key);

/* Adds `key` as it is ("\"file\": ") and the value as JSON has it. */
void print_put_text(struct zf_out *out, const char *key, const char *text);
void print_put_number(struct zf_out *out, const char *key, uint64_t n);

#endif

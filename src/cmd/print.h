/* SPDX-License-Identifier: Apache-2.0 */
/* Words that several commands print. */
#ifndef ZF_CMD_PRINT_H
#define ZF_CMD_PRINT_H

#include <stdio.h>

#include <zf/model/model.h>

/* "[4096, 11008]" */
void print_shape(FILE *to, const struct zf_tensor *t);

/* "1.5 GiB" for people; exact below 1024. */
void print_bytes(FILE *to, uint64_t n);
/* The same as a string. */
void print_bytes_in(char out[32], uint64_t n);

/* A name from a stranger's file: on a terminal, what it would obey and what is no UTF-8 become '?'. */
void print_name(FILE *to, const char *name);

#endif

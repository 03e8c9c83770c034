/* SPDX-License-Identifier: Apache-2.0 */
/* Parses keys of checkpoints: containers, and the entries of an optimizer's state. */
#ifndef ASSEMBLE_OPTIM_KEY_H
#define ASSEMBLE_OPTIM_KEY_H

#include <zf/assemble/key_path.h>
#include <zf/base/sorted.h>

/* Is p[n] exactly this word, one of these, all digits; does it start with it? */
bool word_is(const char *p, size_t n, const char *word);
bool word_of(const char *p, size_t n, const char *const *words, size_t n_words);
bool word_digits(const char *p, size_t n);
bool word_starts(const char *p, size_t n, const char *word);
/* words: an array. */
#define ONE_OF(p, n, words) word_of(p, n, words, sizeof(words) / sizeof((words)[0]))

/* Names under which checkpoints hold their model, best first. */
enum { ZF_CONTAINERS = 5 };
const char *container_name(int i);
/* The index of a container's name, or -1. */
int container_number(const char *p, size_t n);

/* The parts of an optimizer's entry.  The texts point into the joined key. */
struct optim_key {
    const char *head, *text; /* before and after ".state." */
    size_t head_len, text_len;
    const char *name, *key; /* NULL as long as the split is not known */
    size_t name_len, key_len;
};

/* Is the path whose joined key is key[n] an optimizer's entry?  Fills *e, which borrows key. */
bool optim_key_parse(struct zf_path path, const char *key, size_t n, struct optim_key *e);

/* Is key[n] a setting of an optimizer's groups, "optimizer.param_groups.0.lr"? */
bool optim_key_is_setting(const char *key, size_t n);

/* Splits a flat entry: after the longest parameter name in `params` (hashes of names), else after a
 * key at its start, else at the last dot.  False: there is no dot. */
bool optim_key_split(struct optim_key *e, struct zf_sorted *params);

#endif

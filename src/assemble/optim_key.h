/* SPDX-License-Identifier: Apache-2.0 */
/* The words that keys of checkpoints are made of, and the entries of an optimizer's state. */
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

/* The names that a checkpoint gives to its model, best first. */
enum { ZF_CONTAINERS = 5 };
const char *container_name(int i);
/* The number of a container's name, or -1. */
int container_number(const char *p, size_t n);

/* An optimizer's entry, taken apart.  The texts point into the joined key. */
struct optim_key {
    const char *head, *text; /* before and after ".state." */
    size_t head_len, text_len;
    const char *name, *key; /* NULL while the split is not known */
    size_t name_len, key_len;
};

/* Is the path whose joined key is key[n] an optimizer's entry?  Fills *e, which borrows key. */
bool optim_key_parse(struct zf_path path, const char *key, size_t n, struct optim_key *e);

/* Is key[n] a setting of an optimizer's groups, "optimizer.param_groups.0.lr"? */
bool optim_key_is_setting(const char *key, size_t n);

/* Splits a flat entry: at the longest parameter in `params` (hashes of their names), else behind a
 * key in front, else at the last dot.  False when there is no dot at all. */
bool optim_key_split(struct optim_key *e, struct zf_sorted *params);

#endif

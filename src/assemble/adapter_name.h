/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes tensors of PEFT adapters in a model's state dict, and gives their names in the adapter's own file. */
#ifndef ASSEMBLE_ADAPTER_NAME_H
#define ASSEMBLE_ADAPTER_NAME_H

#include <stdbool.h>
#include <stddef.h>

#define ADAPTER_NAME_MAX 4096 /* longer names do not count as adapters' */

enum adapter_kind {
    ADAPTER_PLAIN,    /* <word>.<adapter>, <word>.<adapter>.weight: without the adapter's name */
    ADAPTER_INSIDE,   /* the adapter's name is removed, whatever follows it */
    ADAPTER_SHARED,   /* one for all layers: base_model.<word> */
    ADAPTER_KEYED,    /* <word>.<key>.<adapter> */
    ADAPTER_NAMELESS, /* the name has no adapter's name in it, and is kept */
    ADAPTER_TOKENS,   /* as PLAIN; the one of a tied layer is not saved */
    ADAPTER_WHOLE,    /* modules_to_save.<adapter> is removed: the module's own parameter */
    ADAPTER_LEFT,     /* not saved: PEFT computes it from the settings */
    ADAPTER_HALF,     /* PEFT saves it together with data that is in no state dict */
    ADAPTER_COMPUTED, /* part of a prompt encoder, of which PEFT saves only the output */
};

struct adapter_name {
    enum adapter_kind kind;
    unsigned word;       /* row in the table */
    const char *methods; /* PEFT's methods that use the word, separated by spaces; "" all */
    const char *adapter; /* [n], borrowed from the name or a constant */
    size_t n, layer;     /* layer: bytes of the name before the word and its dot */
    char out[ADAPTER_NAME_MAX];
};

enum { ADAPTER_WORDS_MOST = 128 }; /* upper bound of the table's rows */

/* name[len] without the prefixes of a trainer's wrappers before "base_model." or "prompt_encoder.". */
const char *adapter_unwrapped(const char *name, size_t len);

/* False: not an adapter's tensor.  peft: the state is a PeftModel's, whose prompts count, too. */
bool adapter_name_read(const char *name, size_t len, bool peft, struct adapter_name *out);

/* The row of a word of the table. */
unsigned adapter_word(const char *word);

/* Does the word belong to a layer of PEFT, so that a state dict with it has an adapter? */
bool adapter_is_own(enum adapter_kind kind);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Is a tensor of a model's state one of an adapter's of PEFT, of which, and what does PEFT call it in the adapter's own file? */
#ifndef ASSEMBLE_ADAPTER_NAME_H
#define ASSEMBLE_ADAPTER_NAME_H

#include <stdbool.h>
#include <stddef.h>

#define ADAPTER_NAME_MAX 4096 /* longer names are no parameters of one */

enum adapter_kind {
    ADAPTER_PLAIN,    /* <word>.<adapter>, <word>.<adapter>.weight: without the adapter's name */
    ADAPTER_INSIDE,   /* the adapter's name goes, whatever is behind it */
    ADAPTER_SHARED,   /* one for all layers: base_model.<word> */
    ADAPTER_KEYED,    /* <word>.<key>.<adapter> */
    ADAPTER_NAMELESS, /* the name has no adapter's in it, and stays as it is */
    ADAPTER_TOKENS,   /* PLAIN; that of a tied layer is not saved */
    ADAPTER_WHOLE,    /* modules_to_save.<adapter>: both go, it is the module's own parameter */
    ADAPTER_LEFT,     /* is not saved: it is made from the settings */
    ADAPTER_HALF,     /* PEFT saves it with what is in no state dict */
    ADAPTER_COMPUTED, /* a part of a prompt encoder of which PEFT saves what it computes */
};

struct adapter_name {
    enum adapter_kind kind;
    unsigned word;       /* its row in the table */
    const char *methods; /* that have it, with spaces between; "" all */
    const char *adapter; /* [n], borrowed from the name or a constant */
    size_t n, layer;     /* layer: bytes of the name in front of the word and its dot */
    char out[ADAPTER_NAME_MAX];
};

enum { ADAPTER_WORDS_MOST = 128 }; /* rows in the table, at most */

/* name[len] without what a trainer's wrappers put in front of "base_model." or "prompt_encoder.". */
const char *adapter_unwrapped(const char *name, size_t len);

/* False: it is none.  peft: the state is that of a PeftModel, whose prompts count too. */
bool adapter_name_read(const char *name, size_t len, bool peft, struct adapter_name *out);

/* The row of a word of the table. */
unsigned adapter_word(const char *word);

/* Is the word of a layer's own, so that a state which has it has an adapter? */
bool adapter_is_own(enum adapter_kind kind);

#endif

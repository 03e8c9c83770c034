/* SPDX-License-Identifier: Apache-2.0 */
/* Reads fields of known names and kinds from a pickle or a small JSON document.
 *
 *     struct zf_taker t = {.arena = a};
 *     struct zf_take root = zf_take_root(&t, zf_torch_root(file));
 *     struct zf_take ranks = zf_take_key(&root, "ranks");
 *     for (uint64_t i = 0, n = zf_take_list(&ranks); i < n; i++) {
 *         struct zf_take one = zf_take_item(&ranks, i);
 *         rank[i] = zf_take_u64(&one);
 *     }
 *     return zf_take_ok(&t, err);        // "!ranks[3]: expected a number >= 0, found a text"
 *
 * The first failure is kept, with the location of its value; after it, all values are 0, "" or empty, so that a reader
 * only has to check once, before it uses the values.  A count and the memory for it come from one call of
 * zf_take_list. */
#ifndef ZF_ASSEMBLE_TAKE_H
#define ZF_ASSEMBLE_TAKE_H

#include <zf/assemble/tensor_ref.h>

struct zf_taker {
    struct zf_arena *arena; /* borrowed: for zf_take_room and copied values */
    bool failed;
    struct zf_err err; /* the first failure */
};

/* A value and its place in the document; it and its parents are on the caller's stack. */
struct zf_take {
    struct zf_taker *t;
    const struct zf_take *in; /* the parent; NULL: this is the root */
    const struct zf_pv *v;    /* NULL: it is missing */
    const char *key;          /* NULL: it is item `at` */
    uint64_t at;
};

struct zf_take zf_take_root(struct zf_taker *t, const struct zf_pv *v);
/* The value of a text key, or an attribute of an object; `key` is borrowed.  It may be missing. */
struct zf_take zf_take_key(const struct zf_take *in, const char *key);
/* Item i of a list or tuple, argument i of a call (a NamedTuple), or the value of a mapping's i-th pair. */
struct zf_take zf_take_item(const struct zf_take *in, uint64_t i);
/* The key of a mapping's i-th pair. */
struct zf_take zf_take_name(const struct zf_take *in, uint64_t i);
/* The value of a mapping's number key.  It may be missing. */
struct zf_take zf_take_id(const struct zf_take *in, uint64_t id);

/* True if it exists and is not None. */
bool zf_take_given(const struct zf_take *x);
/* The number of its items. */
uint64_t zf_take_list(const struct zf_take *x);
/* Checks that it is a list of n items. */
bool zf_take_list_of(const struct zf_take *x, uint64_t n);
/* The number of a mapping's pairs; an object without items (an empty OrderedDict) has none. */
uint64_t zf_take_map(const struct zf_take *x);
/* Checks that it is a call of this class, in any module. */
bool zf_take_call(const struct zf_take *x, const char *class);

uint64_t zf_take_u64(const struct zf_take *x);
/* The same; it may be written as text, "12". */
uint64_t zf_take_decimal(const struct zf_take *x);
bool zf_take_bool(const struct zf_take *x);
/* Borrowed from the document; `n_out` may be NULL. */
const char *zf_take_text(const struct zf_take *x, uint64_t *n_out);
/* A torch.Size, tuple or list of numbers, at most 64, in the arena. */
const uint64_t *zf_take_sizes(const struct zf_take *x, uint32_t *n_out);
/* A dense tensor, whose reference k keeps. */
bool zf_take_tensor(const struct zf_take *x, struct zf_keeper *k, struct zf_torch *t,
                    struct zf_tensor_ref *out);

/* Zeroed memory in the arena for n elements of `size` bytes; NULL after a failure. */
void *zf_take_room(struct zf_taker *t, uint64_t n, size_t size);

/* Refuses the value, for example because it contradicts another one; returns false. */
bool zf_take_refuse(const struct zf_take *x, enum zf_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Refuse the value unless the condition holds.  Macros, so that the message's arguments are only evaluated when
 * needed. */
#define zf_take_must(x, holds, ...) ((holds) || zf_take_refuse((x), ZF_E_FORMAT, __VA_ARGS__))
#define zf_take_can(x, holds, ...) ((holds) || zf_take_refuse((x), ZF_E_UNSUPPORTED, __VA_ARGS__))
/* Checks that n, the number of its entries, is at most `most`, the value of `limit`. */
bool zf_take_most(const struct zf_take *x, uint64_t n, uint64_t most, enum zf_limit limit);
/* Keeps the failure of another reader, about this value or the file that it names. */
bool zf_take_fail(const struct zf_take *x, const struct zf_err *err);

/* True if no value was refused; otherwise *err is the first failure.
 * Errors: ZF_E_FORMAT a value is missing or of another kind; those of zf_tensor_ref_read; of the arena. */
bool zf_take_ok(const struct zf_taker *t, struct zf_err *err) ZF_CHECKED;

#endif

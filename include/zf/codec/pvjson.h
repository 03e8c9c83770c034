/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a pickled value as JSON for people and scripts: state/NAME.json.  Always strict JSON; it cannot be converted
 * back.
 *
 *   dict, OrderedDict, defaultdict, Counter    object; a key that is no text becomes one, as Python
 *                                              prints it; one that is there already gets "#" and
 *                                              its place
 *   tuple, list, set, deque, torch.Size        array
 *   bytes                                      {"__bytes__": hex, "length": n}, cut when long
 *   int of any size                            number, all digits
 *   nan, inf                                   {"__float__": "nan"}
 *   path, torch.dtype, torch.device, layout    text
 *   numpy scalar                               number
 *   object whose state is a dict               {"__class__": "module.Name", attributes …}
 *   any other call or object                   {"__class__": …, "args": […], "kwargs", "items",
 *                                              "state"}
 *   getattr(Enum, 'NAME')                      {"__enum__": "module.Enum.NAME"}
 *   a name alone, a persistent id              {"__global__": "module.name"}, {"__persid__": …}
 *   inside itself; too deep                    {"__ref__": "2 levels up"}, {"__cut__": …} */
#ifndef ZF_CODEC_PVJSON_H
#define ZF_CODEC_PVJSON_H

#include <zf/codec/jsonin.h>
#include <zf/codec/pickle.h>

/* The output; it remembers the first failure. */
struct zf_pvjson;

void zf_pvjson_raw(struct zf_pvjson *o, const char *json);             /* unchanged */
void zf_pvjson_str(struct zf_pvjson *o, const char *text, uint64_t n); /* as a JSON string */

/* Called for every value that is no plain number, text or constant.  Either writes one JSON value on one line and
 * returns true, or writes nothing and returns false: then the rules above apply. */
typedef bool zf_pvjson_fn(void *ctx, const struct zf_pv *v, struct zf_pvjson *o);

struct zf_pvjson_special {
    zf_pvjson_fn *fn;
    void *ctx;
};

/* Writes v, indented by two spaces, with a newline at its end.  special may be NULL.
 * *out is terminated; the caller must free() it.  Equal values give equal text.
 * Errors: ZF_E_LIMIT text_bytes; ZF_E_NOMEM. */
bool zf_pv_json(const struct zf_pv *v, const struct zf_limits *lim,
                const struct zf_pvjson_special *special, char **out, uint64_t *len,
                struct zf_err *err) ZF_CHECKED;

/* Reads a small JSON document as the values that json.loads returns, in the arena, so that the same code can read both.
 * As strict as zf/codec/jsonin.h.  NULL: ZF_E_FORMAT with the byte offset; ZF_E_LIMIT; ZF_E_NOMEM. */
const struct zf_pv *zf_pv_of_json(const char *text, uint64_t n, struct zf_arena *arena,
                                  const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;
/* The same for the next value of a document that is read as a stream; zf_jsonin_end() tells whether it was valid.
 * NULL: ZF_E_LIMIT; ZF_E_NOMEM. */
const struct zf_pv *zf_pv_of_jsonin(struct zf_jsonin *in, struct zf_arena *arena,
                                    const struct zf_limits *lim, struct zf_err *err) ZF_CHECKED;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Finds files of JSON that were cut short, or of which the end was never written and reads as zeros. */
#include <zf/codec/json.h>

#include <ctype.h>
#include <stdlib.h>

#define WHOLE_CHUNK ((size_t)64 << 10)

struct whole {
    uint64_t depth;
    bool begun, in_string, escaped, broken;
};

static void whole_add(struct whole *w, char c)
{
    const bool open = c == '{' || c == '[', close = c == '}' || c == ']';

    w->broken = w->broken || c == '\0' || (close && !w->in_string && w->depth == 0);
    w->begun = w->begun || !isspace((unsigned char)c);
    if (w->in_string) {
        w->in_string = w->escaped || c != '"';
        w->escaped = !w->escaped && c == '\\';
    } else if (c == '"') {
        w->in_string = true;
    } else {
        w->depth += open;
        w->depth -= close && w->depth > 0;
    }
}

bool zf_json_is_whole(struct zf_source *src, bool *out, struct zf_err *err)
{
    struct whole w = {.depth = 0};
    zf_auto(mem) char *buf = malloc(WHOLE_CHUNK);

    if (!buf)
        return zf_fail_sys(err, "read JSON");
    for (uint64_t at = 0; at < src->size && !w.broken; at += WHOLE_CHUNK) {
        const size_t n = src->size - at < WHOLE_CHUNK ? (size_t)(src->size - at) : WHOLE_CHUNK;

        if (!zf_source_pread(src, buf, n, at, err))
            return false;
        for (size_t i = 0; i < n && !w.broken; i++)
            whole_add(&w, buf[i]);
    }
    *out = w.begun && !w.broken && !w.in_string && w.depth == 0;
    return true;
}

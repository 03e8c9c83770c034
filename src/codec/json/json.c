/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/codec/json.h>

#include <stdlib.h>
#include <string.h>

#include <zf/base/utf8.h>

/* Bytes that jansson allocates per value, rounded up (2.13 … 2.14, 64 bit, including malloc's overhead). */
#define OBJECT_BYTES 256u
#define ARRAY_BYTES 176u
#define VALUE_BYTES 64u

/* Refuses nesting that would make the parser recurse deeply, and documents of almost only brackets,
 * which take eighty bytes of memory per byte.  Brackets are counted outside of strings; the parser
 * checks whether they match. */
static bool json_check_size(const char *p, uint64_t n, const struct zf_limits *lim,
                            struct zf_err *err)
{
    uint64_t depth = 0, memory = 0, most = zf_limits_meta(lim, n), max = lim->json_depth;
    bool in_string = false;

    for (uint64_t i = 0; i < n; i++) {
        char c = p[i];

        if (in_string) {
            memory++;
            in_string = c != '"';
            i += c == '\\';
            continue;
        }
        memory += c == '{' ? OBJECT_BYTES : c == '[' ? ARRAY_BYTES : c == ',' ? VALUE_BYTES : 1;
        if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > max) {
                return zf_fail_limit(err, ZF_LIMIT_json_depth, i,
                                     "JSON nested deeper than %llu levels (limit json_depth)",
                                     (unsigned long long)max);
            }
        } else if ((c == '}' || c == ']') && depth) {
            depth--;
        }
    }
    if (memory > most) {
        return zf_fail_limit(err, ZF_LIMIT_meta_memory, ZF_OFF_NONE,
                             "%llu bytes of JSON need %llu bytes of memory, more than the limits "
                             "meta_memory=%llu and meta_slack=%llu allow",
                             (unsigned long long)n, (unsigned long long)memory,
                             (unsigned long long)lim->meta_memory,
                             (unsigned long long)lim->meta_slack);
    }
    return true;
}

json_t *zf_json_load(const char *p, uint64_t n, const struct zf_limits *lim, struct zf_err *err)
{
    json_error_t why;
    json_t *j;

    if (n > lim->json_bytes) {
        zf_fail_limit(err, ZF_LIMIT_json_bytes, 0,
                      "JSON of %llu bytes, more than %llu (limit json_bytes)",
                      (unsigned long long)n, (unsigned long long)lim->json_bytes);
        return NULL;
    }
    if (!json_check_size(p, n, lim, err))
        return NULL;
    j = json_loadb(p, (size_t)n, JSON_REJECT_DUPLICATES, &why);
    if (j)
        return j;
    if (json_error_code(&why) == json_error_out_of_memory) {
        zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for %llu bytes of JSON",
                (unsigned long long)n);
    } else {
        uint64_t at = why.position > 0 ? (uint64_t)why.position : 0;
        zf_fail(err, ZF_E_FORMAT, at < n ? at : n, "not valid JSON: %.120s", why.text);
    }
    return NULL;
}

json_t *zf_json_string(const char *p, size_t n)
{
    json_t *j = json_stringn(p, n);
    char *clean = j ? NULL : malloc(3 * n + 1);
    size_t at = 0;

    for (size_t i = 0; clean && i < n;) {
        size_t len = zf_utf8_len(p + i, n - i);

        memcpy(clean + at, len ? p + i : "\xef\xbf\xbd", len ? len : 3);
        at += len ? len : 3;
        i += len ? len : 1;
    }
    if (clean) {
        j = json_stringn(clean, at);
        free(clean);
    }
    return j;
}

json_t *zf_json_text(const char *p)
{
    return zf_json_string(p, strlen(p));
}

bool zf_json_u64(const json_t *j, uint64_t *out)
{
    if (!json_is_integer(j) || json_integer_value(j) < 0)
        return false;
    *out = (uint64_t)json_integer_value(j);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are read as the lines in front of an answer's body, as a date, a range and a URL: what was
 * understood is possible, and an answer that passes for the range that was asked for is that range. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "src/remote/http_inside.h"
#include "src/remote/timestamp.h"
#include "src/remote/url.h"

static void try_head(const char *text, size_t n)
{
    static const struct http_object same = {.size = 1000, .etag = "\"a\""};
    const struct http_ask ask = {.off = 100, .len = 50, .same = &same};
    struct http_head h = {.linked = false};
    struct zf_err err;

    http_head_begin(&h);
    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t len = end ? (size_t)(end - text) + 1 - at : n - at;

        http_head_line(&h, text + at, len, 1700000000);
        at += len;
    }
    if (h.has_range && (h.last < h.first || (h.total != HTTP_SIZE_UNKNOWN && h.last >= h.total)))
        abort();
    if (strlen(h.object.etag) >= sizeof h.object.etag || h.retry_after > 1e12)
        abort();
    if (h.status != 416 && http_check(&ask, &h, &err) &&
        (h.status != 206 || h.first != 100 || h.last != 149 ||
         strcmp(h.object.etag, "\"a\"") != 0 || h.encoded || h.multipart))
        abort();
}

static void try_url(const char *text)
{
    struct zf_err err;
    zf_auto(mem) char *shown = url_shown(text), *origin = url_origin(text);
    zf_auto(out) struct zf_out o = {0};
    zf_auto(out) struct zf_out back = {0};

    if (url_check(text, &err) && (!origin || strchr(shown, '?') || strchr(shown, '#')))
        abort();
    /* Encoded and decoded it is what it was. */
    url_encode(&o, text, strlen(text), true);
    if (!url_decode(&back, zf_out_text(&o), o.n, false) || strcmp(zf_out_text(&back), text) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zf_auto(mem) char *text = malloc(size + 1);
    char said[100];
    time_t when;

    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    try_head(text, size);
    http_body_words(text, size, said, sizeof said);
    const struct http_reply r = {.head = text};
    free(http_header(&r, "ETag"));
    if (timestamp_http(text, &when) && when < 0)
        abort();
    try_url(text);
    return 0;
}

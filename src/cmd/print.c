/* SPDX-License-Identifier: Apache-2.0 */
#include "print.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "page.h"

size_t print_shape(FILE *to, const struct zf_tensor *t)
{
    size_t n = 2;

    (void)fputc('[', to);
    for (uint32_t d = 0; d < t->ndim; d++) {
        const int put = fprintf(to, "%s%" PRIu64, d ? ", " : "", t->shape[d]);

        n += put > 0 ? (size_t)put : 0;
    }
    (void)fputc(']', to);
    return n;
}

struct number number_bytes(uint64_t n)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct number out;
    double v = (double)n;
    size_t u = 0;

    for (; v >= 999.95 && u + 1 < sizeof unit / sizeof unit[0]; u++)
        v /= 1024;
    (void)snprintf(out.text, sizeof out.text, u ? "%.1f %s" : "%.0f %s", v, unit[u]);
    return out;
}

struct number number_short(uint64_t n)
{
    static const char *const unit[] = {"", " K", " M", " B", " T"};
    struct number out;
    double v = (double)n;
    size_t u = 0;

    for (; v >= 999.5 && u + 1 < sizeof unit / sizeof unit[0]; u++)
        v /= 1000;
    const int decimals = u == 0 || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2;
    (void)snprintf(out.text, sizeof out.text, "%.*f%s", decimals, v, unit[u]);
    return out;
}

struct number number_grouped(uint64_t n)
{
    struct number out = {""};
    char digits[24];
    const int len = snprintf(digits, sizeof digits, "%" PRIu64, n);

    for (int i = 0, to = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            out.text[to++] = ',';
        out.text[to++] = digits[i];
    }
    return out;
}

struct number number_of(uint64_t n, const char *what)
{
    struct number out;

    (void)snprintf(out.text, sizeof out.text, "%.26s %.30s%s", number_grouped(n).text, what,
                   n == 1 ? "" : "s");
    return out;
}

void print_name(FILE *to, const char *name)
{
    if (isatty(fileno(to)) == 1) {
        const struct page p = page_of(to, COLOR_NEVER);

        page_text(&p, name, strlen(name));
    } else {
        (void)fputs(name, to);
    }
}

int print_document(json_t *j, bool json, void (*text)(const json_t *j))
{
    struct zf_err err;

    if (!j) {
        (void)zf_fail(&err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
        return cmd_fail(&err);
    }
    if (json) {
        (void)json_dumpf(j, stdout, JSON_INDENT(1));
        (void)fputc('\n', stdout);
    } else {
        text(j);
    }
    json_decref(j);
    return cmd_finish(EXIT_OK);
}

const char *print_text(const json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));

    return text ? text : "";
}

uint64_t print_number(const json_t *j, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(j, key));
}

void print_put_text(struct zf_out *out, const char *key, const char *text)
{
    zf_out_str(out, key);
    zf_out_json(out, text, strlen(text));
}

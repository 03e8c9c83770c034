/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of src/remote that need no network, for Python to ask: a JSON object a line on stdin, its answer
 * a line on stdout.  test_aws.py compares what comes out with botocore and with Python's own modules. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/out.h>

#include "src/remote/aws.h"
#include "src/remote/s3_error.h"
#include "src/remote/listings.h"
#include "src/remote/sigv4.h"
#include "src/remote/timestamp.h"

static const char *text_of(const json_t *j, const char *key)
{
    return json_string_value(json_object_get(j, key));
}

static json_t *say_sign(const json_t *j, struct zf_err *err)
{
    zf_auto(headers) struct headers h = {.n = 0};
    const json_t *list = json_object_get(j, "headers");
    const char *line[32];
    const char *body = text_of(j, "body");
    struct sigv4_key key = {text_of(j, "id"), text_of(j, "secret"), text_of(j, "token")};
    struct sigv4_ask ask = {
        .method = text_of(j, "method"),
        .url = text_of(j, "url"),
        .header = line,
        .n_header = json_array_size(list),
        .body = body,
        .n_body = body ? strlen(body) : 0,
        .region = text_of(j, "region"),
        .service = text_of(j, "service"),
        .now = (time_t)json_integer_value(json_object_get(j, "now")),
    };

    for (size_t i = 0; i < ask.n_header && i < 32; i++)
        line[i] = json_string_value(json_array_get(list, i));
    if (!sigv4_sign(&ask, &key, &h, err))
        return NULL;
    /* date, hash of the body, token or "", authorization */
    return json_pack("[s,s,s,s]", h.line[0], h.line[1], h.n == 4 ? h.line[2] : "", h.line[h.n - 1]);
}

static json_t *say_list(const json_t *j, struct zf_err *err)
{
    const struct zf_limits lim = {.dir_entries =
                                      (uint64_t)json_integer_value(json_object_get(j, "max"))};
    const json_t *pages = json_object_get(j, "pages");
    zf_auto(entries) struct entries all = {.text = NULL};
    zf_auto(s3_list) struct s3_list l = {.prefix = text_of(j, "prefix"), .out = &all};
    bool ok = entries_init(&all, &lim, err);

    all.once = true;
    for (size_t i = 0; ok && i < json_array_size(pages); i++) {
        const json_t *page = json_array_get(pages, i);

        ok = s3_list_page(&l, json_string_value(page), json_string_length(page), err);
    }
    json_t *items = ok ? json_array() : NULL;
    for (size_t i = 0; ok && i < all.n; i++) {
        const struct http_object o = entries_object(&all, i);

        (void)json_array_append_new(items, json_pack("[s,b,I,s,I]", all.at[i].name, all.at[i].dir,
                                                     all.at[i].dir ? 0 : (json_int_t)o.size, o.etag,
                                                     (json_int_t)o.mtime.tv_sec));
    }
    return ok ? json_pack("{s:o,s:b,s:s}", "items", items, "more", l.more, "token",
                          zf_out_text(&l.token))
              : NULL;
}

static json_t *say_error(const json_t *j, struct zf_err *err)
{
    const char *body = text_of(j, "body");
    struct s3_error e;
    struct s3_asked asked = {
        .store = "S3",
        .bucket = "bucket",
        .from = text_of(j, "from"),
        .region = "us-east-1",
        .listing = json_is_true(json_object_get(j, "listing")),
        .now = (time_t)json_integer_value(json_object_get(j, "now")),
    };

    s3_error_read(&e, body, strlen(body));
    (void)s3_error_fail(&e, (long)json_integer_value(json_object_get(j, "status")), &asked, err);
    return NULL;
}

static json_t *say_ini(const json_t *j, struct zf_err *err)
{
    zf_auto(ini) struct ini ini = {0};
    const char *text = text_of(j, "text");

    if (!ini_parse(&ini, text, strlen(text), err))
        return NULL;
    json_t *all = json_object();
    for (size_t i = 0; i < ini.section.n; i++)
        json_object_set_new(all, ini.section.at[i], json_object());
    for (size_t i = 0; i < ini.option.n; i++) {
        json_object_set_new(json_object_get(all, ini.section.at[ini.option.at[i].section]),
                            ini.option.at[i].name, json_string(ini.option.at[i].value));
    }
    return all;
}

static json_t *say_plan(const json_t *j, struct zf_err *err)
{
    static const char *const base[] = {"nobody", "static", "web-identity", "container", "instance"};
    zf_auto(aws_conf) struct aws_conf c = {0};
    struct aws_plan p;
    zf_auto(mem) char *s3 = NULL;
    zf_auto(mem) char *sts = NULL;
    zf_auto(mem) char *style = NULL;

    if (!aws_conf_load(&c, text_of(j, "profile"), err) || !aws_plan_make(&p, &c, err) ||
        !aws_conf_endpoint(&c, "s3", &s3, err) || !aws_conf_endpoint(&c, "sts", &sts, err))
        return NULL;
    style = aws_conf_s3(&c, "addressing_style");
    json_t *roles = json_array();
    for (unsigned i = 0; i < p.n_roles; i++) {
        const struct aws_role *r = &p.role[i];
        json_array_append_new(
            roles, json_pack("[s,s?,s?,s?]", r->arn, r->session, r->external_id, r->duration));
    }
    return json_pack("{s:s,s:s?,s:s?,s:s?,s:s?,s:o,s:s?,s:s?,s:s?,s:s?}", "base", base[p.base],
                     "id", p.id, "secret", p.secret, "token", p.token, "token_file", p.token_file,
                     "roles", roles, "region", aws_conf_region(&c), "s3", s3, "sts", sts, "style",
                     style);
}

static json_t *say_time(const json_t *j, struct zf_err *err)
{
    struct timespec t;

    if (!timestamp_iso(text_of(j, "text"), &t)) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "no time");
        return NULL;
    }
    return json_pack("[I,I]", (json_int_t)t.tv_sec, (json_int_t)t.tv_nsec);
}

int main(void)
{
    static const struct {
        const char *name;
        json_t *(*say)(const json_t *j, struct zf_err *err);
    } verb[] = {{"sign", say_sign}, {"list", say_list}, {"error", say_error},
                {"ini", say_ini},   {"plan", say_plan}, {"time", say_time}};
    char *line = NULL;
    size_t room = 0;

    while (getline(&line, &room, stdin) > 0) {
        struct zf_err err = {.code = ZF_OK};
        json_t *j = json_loads(line, JSON_ALLOW_NUL, NULL), *out = NULL;
        const char *name = j ? text_of(j, "do") : NULL;
        for (size_t i = 0; name && i < sizeof verb / sizeof *verb; i++)
            if (strcmp(name, verb[i].name) == 0)
                out = verb[i].say(j, &err);
        if (!out) {
            char text[800];
            out = json_pack("{s:s,s:i}", "error", zf_err_text(&err, text, sizeof text), "code",
                            (int)err.code);
        }
        char *said = out ? json_dumps(out, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        puts(said ? said : "{\"error\": \"no answer\"}");
        fflush(stdout);
        free(said);
        json_decref(out);
        json_decref(j);
    }
    free(line);
    return 0;
}

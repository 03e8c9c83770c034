/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses go out as they are, and what is said of the others. */
#include "support/unit.h"

#include <stdio.h>

#include "src/remote/url.h"

static struct zf_err err;

static void as_they_are(void **state)
{
    static const char *const row[] = {
        "http://h",
        "https://h:8080/a/b?x=y#z",
        "HTTP://h/~!$&'()*+,;=:@%20",
        "https://[::1]:80/",
        "http://h/a@b",
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_ok(url_check(row[i], &err), &err);
}

static void refused(void **state)
{
    static const struct {
        const char *url, *why;
    } row[] = {
        {"ftp://h/a", "not an http or https"},
        {"h/a", "not an http or https"},
        {"", "not an http or https"},
        {"http://", "has no host"},
        {"https:///a", "has no host"},
        {"http://:80/", "has no host"},
        {"http://u:p@h/", "~/.netrc"},
        {"http://u@h/", "~/.netrc"},
        {"http://@h/", "~/.netrc"},
        {"http://h:8o/", "not a number"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_false(url_check(row[i].url, &err));
        assert_err(&err, ZF_E_USAGE, ZF_OFF_NONE, row[i].why);
    }
}

/* Every byte, in the path. */
static void only_visible_ascii(void **state)
{
    (void)state;
    for (unsigned c = 1; c < 256; c++) {
        const char url[] = {'h', 't', 't', 'p', ':', '/', '/', 'h', '/', 'a', (char)c, 'b', '\0'};
        char why[60];

        if (c > 0x20 && c < 0x7f) {
            assert_ok(url_check(url, &err), &err);
            continue;
        }
        (void)snprintf(why, sizeof why, "a byte %02x that should be percent-encoded", c);
        assert_false(url_check(url, &err));
        assert_err(&err, ZF_E_USAGE, ZF_OFF_NONE, why);
    }
}

/* Origins that credentials may go to are compared as texts. */
static void origins(void **state)
{
    static const struct {
        const char *url, *origin, *shown;
    } row[] = {
        {"HTTPS://Host:443/A?b#c", "https://host", "HTTPS://Host:443/A"},
        {"http://host:80", "http://host", "http://host:80"},
        {"http://host:443/", "http://host:443", "http://host:443/"},
        {"https://host:80?x=/@", "https://host:80", "https://host:80"},
        {"https://[FD00::1]/a:b", "https://[fd00::1]", "https://[FD00::1]/a:b"},
        {"https://[fd00::1]:8443", "https://[fd00::1]:8443", "https://[fd00::1]:8443"},
        {"http://u@v:p@host/u@v", "http://host", "http://host/u@v"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        zf_auto(mem) char *origin = url_origin(row[i].url), *shown = url_shown(row[i].url);

        assert_string_equal(origin, row[i].origin);
        assert_string_equal(shown, row[i].shown);
    }
    assert_null(url_origin("host/a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_they_are),
        cmocka_unit_test(refused),
        cmocka_unit_test(only_visible_ascii),
        cmocka_unit_test(origins),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

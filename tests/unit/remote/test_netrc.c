/* SPDX-License-Identifier: Apache-2.0 */
/* What a netrc file says for a host; the cases are those that curl (tests/data/test478 … test486) and
 * Python's netrc module agree on. */
#include "support/unit.h"

#include "src/remote/netrc.h"

static const char file[] =
    "# a comment\n"
    "machine a.example login alice password s3cret\n"
    "machine b.example\n\tlogin bob\n\taccount ignored\n\tpassword \"two words\\\"\\n\"\n"
    "machine nopass.example login carol\n"
    "machine again.example login one\n"
    "machine again.example login two password pw2\n"
    "macdef init\nmachine evil.example login x password y\n\n"
    "machine password login machine password default\n"
    "default login anonymous password me@here\n"
    "machine late.example login l password late\n";

static void check(const char *text, const char *host, const char *user, const char *password)
{
    zf_auto(netrc) struct netrc_login l;
    struct zf_err err = {.code = ZF_OK};
    bool found;

    assert_ok(netrc_find(text, strlen(text), host, &l, &found, &err), &err);
    assert_int_equal(found, password != NULL);
    if (found) {
        assert_string_equal(zf_out_text(&l.user), user);
        assert_string_equal(zf_out_text(&l.password), password);
    }
}

static void the_machine_is_found(void **state)
{
    (void)state;
    check(file, "a.example", "alice", "s3cret");
    check(file, "A.EXAMPLE", "alice", "s3cret");
    check(file, "b.example", "bob", "two words\"\n");
    check(file, "again.example", "two", "pw2");
    check(file, "late.example", "l", "late");
}

static void others_have_the_default_or_nothing(void **state)
{
    (void)state;
    check(file, "evil.example", "anonymous", "me@here");
    check(file, "nopass.example", "anonymous", "me@here");
    check("machine a login b password c", "d", NULL, NULL);
    check("machine a login b", "a", NULL, NULL);
    check("machine a login", "a", NULL, NULL);
    check("machine", "a", NULL, NULL);
    check("", "a", NULL, NULL);
    check("# machine a login b password c", "a", NULL, NULL);
    check("macdef x\nmachine a login b password c", "a", NULL, NULL);
}

static void every_cut_is_read(void **state)
{
    (void)state;
    for (size_t cut = 0; cut < sizeof file; cut++) {
        zf_auto(netrc) struct netrc_login l;
        zf_auto(mem) char *copy = malloc(cut ? cut : 1);
        struct zf_err err = {.code = ZF_OK};
        bool found;

        assert_non_null(copy);
        memcpy(copy, file, cut);
        if (!netrc_find(copy, cut, "b.example", &l, &found, &err)) {
            assert_err(&err, ZF_E_FORMAT, ZF_OFF_NONE, "not closed");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_machine_is_found),
        cmocka_unit_test(others_have_the_default_or_nothing),
        cmocka_unit_test(every_cut_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The small things that bytes become text with, and descriptors: hexadecimal digits, UTF-8, numbers, whole
 * reads and writes. */
#include "support/unit.h"

#include <zf/base/fd.h>
#include <zf/base/hex.h>
#include <zf/base/out.h>
#include <zf/base/utf8.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>

static void hex_digits(void **state)
{
    char text[2 * 256 + 1], want[3];
    unsigned char all[256];

    (void)state;
    for (int i = 0; i < 256; i++) {
        char *end;
        const char one[] = {(char)i, '\0'};
        long v = strtol(one, &end, 16);

        all[i] = (unsigned char)i;
        assert_int_equal(zf_hex_digit((char)i), *end || end == one ? -1 : v);
    }
    zf_hex(text, all, sizeof all);
    for (int i = 0; i < 256; i++) {
        (void)snprintf(want, sizeof want, "%02x", (unsigned)i);
        assert_memory_equal(text + 2 * i, want, 2);
    }
    assert_int_equal(text[512], '\0');
    zf_auto(out) struct zf_out o = {0};
    zf_out_hex(&o, all, sizeof all);
    assert_string_equal(zf_out_text(&o), text);
}

static void numbers(void **state)
{
    static const uint64_t v[] = {0, 7, 10, 99, 1234567890, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++) {
        zf_auto(out) struct zf_out o = {0};
        char want[24];

        (void)snprintf(want, sizeof want, "%llu", (unsigned long long)v[i]);
        zf_out_dec(&o, v[i]);
        assert_string_equal(zf_out_text(&o), want);
    }
}

/* At every length around the first room, behind other text, and twice. */
static void formats(void **state)
{
    (void)state;
    for (int n = 0; n < 600; n++) {
        zf_auto(out) struct zf_out o = {0};
        char want[2000];

        zf_out_str(&o, n % 2 ? "front" : "");
        zf_out_fmt(&o, "%*s|%d", n, "x", n);
        zf_out_fmt(&o, "%s", "");
        zf_out_fmt(&o, "%.*s%%", n % 7, "abcdefg");
        (void)snprintf(want, sizeof want, "%s%*s|%d%.*s%%", n % 2 ? "front" : "", n, "x", n, n % 7,
                       "abcdefg");
        assert_string_equal(zf_out_text(&o), want);
        assert_int_equal(o.n, strlen(want));
        assert_false(o.bad);
    }
}

/* The characters at the ends of each length. */
static void utf8(void **state)
{
    static const struct {
        uint32_t c;
        const char *text;
    } t[] = {{0x24, "$"},
             {0x7f, "\x7f"},
             {0x80, "\xc2\x80"},
             {0x7ff, "\xdf\xbf"},
             {0x800, "\xe0\xa0\x80"},
             {0xffff, "\xef\xbf\xbf"},
             {0x10000, "\xf0\x90\x80\x80"},
             {0x10ffff, "\xf4\x8f\xbf\xbf"}};

    (void)state;
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        zf_auto(out) struct zf_out o = {0};

        zf_out_utf8(&o, t[i].c);
        assert_string_equal(zf_out_text(&o), t[i].text);
        assert_int_equal(zf_utf8_len(o.p, o.n), o.n);
    }
}

static void whole_reads_and_writes(void **state)
{
    char name[] = "/tmp/zf_fd_XXXXXX", got[8];
    zf_auto(fd) int fd = mkstemp(name);

    (void)state;
    assert_true(fd >= 0);
    (void)unlink(name);
    assert_true(zf_fd_write(fd, "abc", 3) && zf_fd_write(fd, "def", 3));
    assert_true(zf_fd_pwrite(fd, "XY", 2, 2));
    assert_int_equal(zf_fd_pread(fd, got, 4, 1), 4);
    assert_memory_equal(got, "bXYe", 4);
    assert_int_equal(zf_fd_pread(fd, got, sizeof got, 4), 2); /* the end of the file */
    assert_int_equal(zf_fd_pread(fd, got, sizeof got, 99), 0);
    zf_auto(fd) int shut = -1;
    errno = 0;
    assert_int_equal(zf_fd_pread(shut, got, 1, 0), -1);
    assert_int_equal(errno, EBADF);
    assert_false(zf_fd_write(shut, "a", 1));
    assert_false(zf_fd_pwrite(shut, "a", 1, 0));
}

/* What does not fit a socket's buffer is written in parts, while the other end reads. */
static void writes_in_parts(void **state)
{
    enum { BYTES = 4 << 20 };
    unsigned char *sent = malloc(BYTES), *got = malloc(BYTES);
    int pair[2], status;

    (void)state;
    assert_true(sent && got && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    for (size_t i = 0; i < BYTES; i++)
        sent[i] = (unsigned char)(i * 7 + (i >> 9));
    pid_t child = fork();
    if (child == 0) {
        (void)close(pair[1]);
        _exit(zf_fd_write(pair[0], sent, BYTES) ? 0 : 1);
    }
    (void)close(pair[0]);
    for (size_t n = 0; n < BYTES;) {
        ssize_t k = read(pair[1], got + n, BYTES - n);

        assert_true(k > 0);
        n += (size_t)k;
    }
    (void)close(pair[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_memory_equal(got, sent, BYTES);
    free(sent);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hex_digits),
        cmocka_unit_test(numbers),
        cmocka_unit_test(formats),
        cmocka_unit_test(utf8),
        cmocka_unit_test(whole_reads_and_writes),
        cmocka_unit_test(writes_in_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What a file that torch.save wrote before 1.6 costs where reading is dear. */
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

#include <zf/codec/torch.h>

enum { TEXTS = 20000, TEXT = 1024, BEHIND = 160 << 20 };

static struct zf_err err;
static uint64_t n_bytes, n_reads;

static bool counted_pread(struct zf_source *s, void *buf, size_t n, uint64_t off, struct zf_err *e)
{
    n_bytes += n;
    n_reads++;
    return zf_source_pread(zf_derived_parent(s), buf, n, off, e);
}

static const struct zf_source_ops counted_ops = {
    .kind = "counted", .far = true, .pread = counted_pread, .fini = zf_derived_fini};

static uint8_t *put(uint8_t *at, const char *p, size_t n)
{
    memcpy(at, p, n);
    return at + n;
}
#define PUT(at, text) put(at, text, sizeof(text) - 1)

/* Magic, protocol, host; a list of texts; no storages, and much behind all that. */
static struct zf_source *stream_new(uint64_t *pickle_out)
{
    uint8_t *p = calloc(BEHIND, 1), *at = p;

    assert_non_null(p);
    at = PUT(at, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.");
    at = PUT(at, "\x80\x02M\xe9\x03.");
    at = PUT(at, "\x80\x02}q\0.");
    const uint8_t *object = at;
    at = PUT(at, "\x80\x02](");
    for (int i = 0; i < TEXTS; i++) {
        at = PUT(at, "X\0\x04\0\0");
        memset(at, '.', TEXT);
        at += TEXT;
    }
    at = PUT(at, "e.");
    *pickle_out = (uint64_t)(at - object);
    at = PUT(at, "\x80\x02]q\0.");
    zf_auto(source) struct zf_source *all = zf_mem_new("stream", p, BEHIND, true, &err);
    assert_ok(all, &err);
    struct zf_source *s =
        zf_derived_new(sizeof(struct zf_derived), &counted_ops, "stream", BEHIND, all, &err);
    assert_ok(s, &err);
    return s;
}

static void a_pickle_is_read_no_further_than_it_goes(void **state)
{
    const struct zf_limits lim = zf_limits_default();
    uint64_t pickle;
    zf_auto(source) struct zf_source *s = stream_new(&pickle);

    (void)state;
    zf_auto(torch) struct zf_torch *t = zf_torch_open(s, &lim, &err);
    assert_ok(t, &err);
    assert_int_equal(zf_pv_len(zf_torch_root(t)), TEXTS);
    print_message("# %llu bytes in %llu reads\n", (unsigned long long)n_bytes,
                  (unsigned long long)n_reads);
    assert_in_range(n_bytes, pickle, pickle + pickle / 10);
    assert_in_range(n_reads, 1, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pickle_is_read_no_further_than_it_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

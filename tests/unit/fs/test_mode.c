/* SPDX-License-Identifier: Apache-2.0 */
/* Which files are read past the page cache, where the kernel would map them. */
#include "support/unit.h"

#include "fs/mode.h"

#define MIB (1ull << 20)

static bool past(enum zf_fs_io io, uint64_t size, bool mapped)
{
    const struct zf_fs_opts opts = {.io = io};
    const struct zf_stat s = {.size = size, .mapped = mapped};
    struct fs fs = {.opts = &opts};

    atomic_init(&fs.direct, io != ZF_FS_IO_CACHED);
    return mode_direct(&fs, &s);
}

static void past_the_cache_are_large_files_that_are_not_mapped(void **state)
{
    (void)state;
    assert_true(past(ZF_FS_IO_AUTO, 64 * MIB, false));
    assert_false(past(ZF_FS_IO_AUTO, 64 * MIB - 1, false));
    assert_false(past(ZF_FS_IO_AUTO, 64 * MIB, true));
    assert_true(past(ZF_FS_IO_DIRECT, 64 * MIB, true));
    assert_false(past(ZF_FS_IO_DIRECT, 64 * MIB - 1, true));
    assert_false(past(ZF_FS_IO_CACHED, 64 * MIB, false));
}

/* What /.zerofs/about says of it: which files, and of which there are others. */
static const char *why(enum zf_fs_io io, bool direct)
{
    const struct zf_fs_opts opts = {.io = io};
    struct fs fs = {.opts = &opts};
    struct zf_fs_modes modes;

    atomic_init(&fs.direct, direct);
    mode_get(&fs, NULL, &modes);
    assert_int_equal(modes.direct, direct);
    return modes.why;
}

static void the_reason_names_what_is_excepted(void **state)
{
    (void)state;
    assert_non_null(strstr(why(ZF_FS_IO_DIRECT, true), "files of 64 MiB and more"));
    assert_null(strstr(why(ZF_FS_IO_DIRECT, true), "safetensors"));
    assert_non_null(strstr(why(ZF_FS_IO_AUTO, true), "files of 64 MiB and more"));
    assert_non_null(
        strstr(why(ZF_FS_IO_AUTO, true), "safetensors files, which programs map, use the cache"));
    assert_string_equal(why(ZF_FS_IO_CACHED, false), "io=cached is set");
    assert_non_null(strstr(why(ZF_FS_IO_AUTO, false), "page cache"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(past_the_cache_are_large_files_that_are_not_mapped),
        cmocka_unit_test(the_reason_names_what_is_excepted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

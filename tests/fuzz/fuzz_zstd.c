/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are a zstd item: four bytes of little-endian size that it is said to hold, and the
 * frames.  Read in pieces, from behind, it must give what reading it from the
 * start in one go gives, and it must be as long as one pass over the frames found. */
#include <stdlib.h>
#include <string.h>

#include <zf/base/bytes.h>
#include <zf/source/source.h>

#include "fuzz.h"

#define MAX (1u << 20)
#define STEP (200u << 10) /* no divisor of the block size */

/* Reads all of src, its end first. */
static bool read_back(struct zf_source *src, uint8_t *out, struct zf_err *err)
{
    for (uint64_t end = src->size; end > 0;) {
        uint64_t start = (end - 1) / STEP * STEP;

        if (!zf_source_pread(src, out + start, (size_t)(end - start), start, err))
            return false;
        end = start;
    }
    return true;
}

/* whole: the item at the size that the pass found, or NULL when it found none. */
static void compare(struct zf_source *item, struct zf_source *whole)
{
    static uint8_t got[MAX], want[MAX];
    struct zf_err err = {.code = ZF_OK};
    bool same_size = whole && whole->size == item->size;

    if (read_back(item, got, &err) != same_size)
        abort(); /* only the true size can be read to the end */
    if (same_size && (!zf_source_pread(whole, want, (size_t)whole->size, 0, &err) ||
                      memcmp(got, want, (size_t)whole->size) != 0))
        abort();
    if (!same_size && err.code == ZF_OK)
        abort(); /* a failure without a reason */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zf_limits lim = zf_limits_default();
    struct zf_err err = {.code = ZF_OK};
    struct zf_bytes in = zf_bytes_of(data, size);
    uint64_t said = zf_bytes_le32(&in) % (MAX + 1), left = zf_bytes_left(&in);
    const void *frames = zf_bytes_take(&in, left);

    lim.inflate_bytes = MAX;
    lim.cache_bytes = MAX / 2;
    zf_auto(source) struct zf_source *src =
        frames ? zf_mem_new("item", (void *)(uintptr_t)frames, left, false, &err) : NULL;
    if (!src)
        return 0;
    uint64_t found = 0;
    bool sized = zf_zstd_size(src, MAX, &lim, &found, &err);
    zf_auto(source) struct zf_source *whole = sized ? zf_zstd_new(src, found, &lim, &err) : NULL;
    zf_auto(source) struct zf_source *item = zf_zstd_new(src, said, &lim, &err);
    if (item && said > 0)
        compare(item, whole);
    return 0;
}

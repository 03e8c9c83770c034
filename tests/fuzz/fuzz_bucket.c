/* SPDX-License-Identifier: Apache-2.0 */
/* Flat optimizer buffers of any lengths and contents: the walk finds what trying everything finds. */
#include "fuzz.h"

#include "support/bucket_oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct oracle o;
    enum walk_kind kind;

    oracle_make(&o, data, size);
    if (!oracle_agrees(&o, &kind))
        abort();
    return 0;
}

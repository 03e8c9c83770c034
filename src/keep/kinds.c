/* SPDX-License-Identifier: Apache-2.0 */
#include "kinds.h"

#include <zf/codec/torch.h>
#include <zf/codec/zip.h>
#include <zf/dcp.h>
#include <zf/find.h>

static const struct zf_source_kind *kinds_of(const struct zf_source_kind *const *list, uint64_t *n)
{
    for (; *list && *n > 0; list++)
        (*n)--;
    return *list;
}

const struct zf_source_kind *kinds_at(uint64_t n)
{
    const struct zf_source_kind *const codec[] = {&zf_torch_flip_kind, &zf_zip_kind, NULL};
    const struct zf_source_kind *k = kinds_of(zf_source_kinds, &n);

    k = k ? k : kinds_of(codec, &n);
    k = k ? k : kinds_of(zf_dcp_kinds, &n);
    return k ? k : zf_find_kind((size_t)n);
}

bool kinds_number(const struct zf_source_kind *kind, uint64_t *out)
{
    const struct zf_source_kind *k;

    for (*out = 0; (k = kinds_at(*out)) && k != kind; (*out)++) {
    }
    return k != NULL;
}

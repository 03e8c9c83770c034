/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/base/hex.h>

#include <nettle/base16.h>

void zf_hex(char *out, const void *p, size_t n)
{
    base16_encode_update(out, n, p);
    out[2 * n] = '\0';
}

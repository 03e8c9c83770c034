/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 of a whole file. */
#include <nettle/sha2.h>

#include <zf/base/hex.h>
#include <zf/source/source.h>

#define BLOCK ((size_t)256 << 10)

bool zf_source_sha256(struct zf_source *s, char out[ZF_SHA256_HEX], struct zf_err *err)
{
    zf_auto(mem) uint8_t *block = malloc(BLOCK);
    uint8_t digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx ctx;

    if (!block)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a checksum");
    sha256_init(&ctx);
    for (uint64_t at = 0; at < s->size; at += BLOCK) {
        size_t n = s->size - at < BLOCK ? (size_t)(s->size - at) : BLOCK;

        if (!zf_source_pread(s, block, n, at, err))
            return false;
        sha256_update(&ctx, n, block);
    }
    sha256_digest(&ctx, sizeof digest, digest);
    zf_hex(out, digest, sizeof digest);
    return true;
}

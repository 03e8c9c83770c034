/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes chunks written by c-blosc 1: a header of 16 bytes with both sizes, then blocks, each split
 * into shuffled streams of LZ4, Zstandard …  c-blosc decodes them in the calling thread, ignoring
 * environment variables (blosc_decompress_ctx).  It is loaded with the first array that needs it, because it depends on
 * the C++ library, which takes as long to load as the rest of a command's start.
 * Source: c-blosc 1.21, README_CHUNK_FORMAT.rst and blosc.h. */
#include "config.h"

#include "inside.h"

#ifdef HAVE_BLOSC

#include <blosc.h>

#include <inttypes.h>
#include <pthread.h>

#include <zf/base/bytes.h>
#include <zf/base/library.h>

#define BLOSC_FUNCTIONS(X)                                                                         \
    X(cbuffer_validate)                                                                            \
    X(compname_to_compcode)                                                                        \
    X(decompress_ctx)                                                                              \
    X(get_version_string)

static struct {
#define X(name) __typeof__(blosc_##name) *name;
    BLOSC_FUNCTIONS(X)
#undef X
} blosc;
static struct zf_library blosc_lib = {.soname = BLOSC_SONAME};

static void blosc_begin(void)
{
    static const struct zf_library_symbol name[] = {
#define X(name) {"blosc_" #name, &blosc.name},
        BLOSC_FUNCTIONS(X)
#undef X
    };

    zf_library_load(&blosc_lib, name, sizeof name / sizeof name[0]);
}

bool zarr_blosc_load(struct zf_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, blosc_begin);
    return !blosc_lib.why[0] ||
           zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "chunks are compressed with blosc, and c-blosc cannot be loaded: %s",
                   blosc_lib.why);
}

const char *zf_zarr_blosc_version(const char **why_out)
{
    struct zf_err err;

    if (!zarr_blosc_load(&err)) {
        *why_out = blosc_lib.why;
        return NULL;
    }
    return blosc.get_version_string();
}

static bool blosc_bad(struct zf_err *err, uint64_t at, const char *what, uint64_t said,
                      uint64_t want)
{
    return zf_fail(err, ZF_E_FORMAT, at,
                   "the blosc header has %" PRIu64 " bytes %s, expected %" PRIu64, said, what,
                   want);
}

/* Checks the inner codec: the upper three bits of the flags, unless the data are not compressed (bit 1). */
static bool blosc_inner(uint8_t flags, struct zf_err *err)
{
    static const char *const inner[] = {"blosclz", "lz4", "snappy", "zlib", "zstd"};
    unsigned code = flags >> 5;

    if (flags & BLOSC_MEMCPYED)
        return true;
    if (code >= sizeof inner / sizeof inner[0])
        return zf_fail(err, ZF_E_FORMAT, 2, "blosc does not have an inner codec %u", code);
    return blosc.compname_to_compcode(inner[code]) >= 0 ||
           zf_fail(
               err, ZF_E_UNSUPPORTED, 2,
               "the chunk is compressed with blosc's %s, which the blosc library here was built "
               "without",
               inner[code]);
}

static bool blosc_check(const void *head, size_t n_head, uint64_t have, uint64_t size,
                        struct zf_err *err)
{
    struct zf_bytes b = zf_bytes_of(head, n_head);
    uint8_t version = zf_bytes_u8(&b);

    (void)zf_bytes_u8(&b); /* version of the inner format */
    uint8_t flags = zf_bytes_u8(&b), width = zf_bytes_u8(&b);
    uint64_t nbytes = zf_bytes_le32(&b), block = zf_bytes_le32(&b), cbytes = zf_bytes_le32(&b);
    if (b.bad) {
        return zf_fail(err, ZF_E_FORMAT, n_head, "the blosc header ends after %zu of 16 bytes",
                       n_head);
    }
    if (version != BLOSC_VERSION_FORMAT) {
        return zf_fail(err, ZF_E_UNSUPPORTED, 0,
                       "this is version %u of blosc's format, expected %d", version,
                       BLOSC_VERSION_FORMAT);
    }
    if (nbytes != size)
        return blosc_bad(err, 4, "once decompressed", nbytes, size);
    if (cbytes != have)
        return blosc_bad(err, 12, "compressed", cbytes, have);
    if (width == 0 || (nbytes > 0 && (block == 0 || block > nbytes))) {
        return zf_fail(err, ZF_E_FORMAT, 8,
                       "the blosc header has blocks of %" PRIu64 " bytes with elements of %u",
                       block, width);
    }
    return zarr_blosc_load(err) && blosc_inner(flags, err);
}

static bool blosc_decode(const void *in, size_t have, void *out, size_t size, struct zf_err *err)
{
    size_t n = 0;

    if (!blosc_check(in, have < ZF_DECODER_HEAD ? have : ZF_DECODER_HEAD, have, size, err))
        return false;
    if (blosc.cbuffer_validate(in, have, &n) != 0 || n != size)
        return zf_fail(err, ZF_E_FORMAT, 0, "the blosc header is invalid");
    int got = blosc.decompress_ctx(in, out, size, 1);
    return got >= 0 && (size_t)got == size
               ? true
               : zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the blosc data is damaged");
}

static const struct zf_decoder blosc_decoder = {
    .kind = "blosc", .check = blosc_check, .decode = blosc_decode};
const struct zf_decoder *const zarr_blosc = &blosc_decoder;

#else

const struct zf_decoder *const zarr_blosc = NULL;

bool zarr_blosc_load(struct zf_err *err)
{
    return zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "chunks are compressed with blosc, which this zerofs was built without");
}

const char *zf_zarr_blosc_version(const char **why_out)
{
    *why_out = "built without";
    return NULL;
}

#endif

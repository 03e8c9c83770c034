/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes a chunk's file: the plain elements, or one compressed stream.  Most codecs store the
 * decompressed size (blosc, lz4, usually zstd in the header; gzip at the end).  A stream that yields more
 * or fewer bytes than the chunk has is refused in any case.
 * Source: numcodecs 0.13, one module per codec. */
#include "config.h"

#include "inside.h"

#include <inttypes.h>
#include <zlib.h>

#include <zf/base/bytes.h>

#ifdef HAVE_LZ4
#include <lz4.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

/* ---- zlib, gzip --------------------------------------------------------------------------------- */

/* The most that deflate can expand: 258 bytes from 2 bits. */
#define DEFLATE_MAX 1032

static bool chunk_inflates(uint64_t have, uint64_t size, struct zf_err *err)
{
    return size / DEFLATE_MAX <= have ||
           zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                   "%" PRIu64 " compressed bytes cannot inflate to %" PRIu64, have, size);
}

static bool chunk_check_zlib(const void *head, size_t n_head, uint64_t have, uint64_t size,
                             struct zf_err *err)
{
    const uint8_t *p = head;

    /* RFC 1950: method 8, and the two bytes are a multiple of 31. */
    if (n_head < 2 || (p[0] & 15) != 8 || (p[0] << 8 | p[1]) % 31 != 0)
        return zf_fail(err, ZF_E_FORMAT, 0, "this is not a zlib stream");
    return chunk_inflates(have, size, err);
}

static bool chunk_check_gzip(const void *head, size_t n_head, uint64_t have, uint64_t size,
                             struct zf_err *err)
{
    const uint8_t *p = head;

    /* RFC 1952 */
    if (n_head < 18 || p[0] != 0x1f || p[1] != 0x8b || p[2] != 8)
        return zf_fail(err, ZF_E_FORMAT, 0, "this is not a gzip stream");
    return chunk_inflates(have, size, err);
}

static bool chunk_inflate_error(const z_stream *z, int rc, struct zf_err *err)
{
    const char *what = rc == Z_STREAM_END && z->avail_out ? "inflates to too few bytes"
                       : rc == Z_STREAM_END               ? "is followed by something else"
                       : rc == Z_BUF_ERROR && z->avail_in ? "inflates to too many bytes"
                       : rc == Z_BUF_ERROR || rc == Z_OK  ? "ends early"
                                                          : "is damaged";

    return rc == Z_MEM_ERROR
               ? zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory")
               : zf_fail(err, ZF_E_FORMAT, z->total_in, "the compressed data %s", what);
}

/* Inflates in pieces, because zlib counts in unsigned int.  zlib checks the checksum at the end. */
static int chunk_inflate_all(z_stream *z, const uint8_t *in, size_t have, uint8_t *out, size_t size)
{
    int rc = Z_OK;

    while (rc == Z_OK) {
        size_t left_in = have - z->total_in, left_out = size - z->total_out;

        z->next_in = (Bytef *)(uintptr_t)(in + z->total_in);
        z->avail_in = left_in < 1u << 30 ? (uInt)left_in : 1u << 30;
        z->next_out = out + z->total_out;
        z->avail_out = left_out < 1u << 30 ? (uInt)left_out : 1u << 30;
        rc = inflate(z, Z_NO_FLUSH);
    }
    return rc;
}

static bool chunk_inflate(int window, const void *in, size_t have, void *out, size_t size,
                          struct zf_err *err)
{
    z_stream z = {0};
    uint8_t none;

    if (inflateInit2(&z, window) != Z_OK)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory");
    int rc = chunk_inflate_all(&z, in, have, size ? out : &none, size);
    bool ok = (rc == Z_STREAM_END && z.total_out == size && z.total_in == have) ||
              chunk_inflate_error(&z, rc, err);
    (void)inflateEnd(&z);
    return ok;
}

static bool chunk_decode_zlib(const void *in, size_t have, void *out, size_t size,
                              struct zf_err *err)
{
    return chunk_inflate(MAX_WBITS, in, have, out, size, err);
}

static bool chunk_decode_gzip(const void *in, size_t have, void *out, size_t size,
                              struct zf_err *err)
{
    return chunk_inflate(MAX_WBITS + 16, in, have, out, size, err);
}

static const struct zf_decoder chunk_decoder_zlib = {
    .kind = "zlib", .check = chunk_check_zlib, .decode = chunk_decode_zlib};
static const struct zf_decoder chunk_decoder_gzip = {
    .kind = "gzip", .check = chunk_check_gzip, .decode = chunk_decode_gzip};

/* ---- zstd --------------------------------------------------------------------------------------- */

#ifdef HAVE_ZSTD

static bool chunk_check_zstd(const void *head, size_t n_head, uint64_t have, uint64_t size,
                             struct zf_err *err)
{
    unsigned long long said = ZSTD_getFrameContentSize(head, n_head);

    (void)have;
    if (said == ZSTD_CONTENTSIZE_ERROR)
        return zf_fail(err, ZF_E_FORMAT, 0, "this is not a zstd frame");
    /* The size of the first frame; there may be several. */
    return said == ZSTD_CONTENTSIZE_UNKNOWN || said <= size ||
           zf_fail(err, ZF_E_FORMAT, 0, "the zstd frame holds %llu bytes, expected %" PRIu64, said,
                   size);
}

static bool chunk_decode_zstd(const void *in, size_t have, void *out, size_t size,
                              struct zf_err *err)
{
    uint8_t none;
    size_t got = ZSTD_decompress(size ? out : &none, size, in, have);

    if (ZSTD_isError(got)) {
        return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the zstd data is damaged: %s",
                       ZSTD_getErrorName(got));
    }
    return got == size || zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                                  "the zstd data holds %zu bytes, expected %zu", got, size);
}

static const struct zf_decoder chunk_decoder_zstd = {
    .kind = "zstd", .check = chunk_check_zstd, .decode = chunk_decode_zstd};
#define ZSTD_DECODER &chunk_decoder_zstd
#else
#define ZSTD_DECODER NULL
#endif

/* ---- lz4 ---------------------------------------------------------------------------------------- */

#ifdef HAVE_LZ4

/* Checks numcodecs' own header: the size in four bytes, followed by one LZ4 block, which expands a byte
 * to at most 255. */
static bool chunk_check_lz4(const void *head, size_t n_head, uint64_t have, uint64_t size,
                            struct zf_err *err)
{
    struct zf_bytes b = zf_bytes_of(head, n_head);
    uint32_t said = zf_bytes_le32(&b);

    if (b.bad)
        return zf_fail(err, ZF_E_FORMAT, n_head, "the lz4 chunk ends after %zu of 4 bytes", n_head);
    if (said != size || said > INT32_MAX) {
        return zf_fail(err, ZF_E_FORMAT, 0,
                       "the lz4 chunk should hold %" PRIu32
                       " bytes by its header, expected %" PRIu64,
                       said, size);
    }
    return (size / 255 <= have && have <= INT32_MAX) ||
           zf_fail(err, ZF_E_FORMAT, 0,
                   "%" PRIu64 " bytes of lz4 data cannot hold %" PRIu64 " bytes", have, size);
}

static bool chunk_decode_lz4(const void *in, size_t have, void *out, size_t size,
                             struct zf_err *err)
{
    if (!chunk_check_lz4(in, have < 4 ? have : 4, have, size, err))
        return false;
    int got = LZ4_decompress_safe((const char *)in + 4, out, (int)(have - 4), (int)size);
    return got >= 0 && (size_t)got == size
               ? true
               : zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "the lz4 data is damaged");
}

static const struct zf_decoder chunk_decoder_lz4 = {
    .kind = "lz4", .check = chunk_check_lz4, .decode = chunk_decode_lz4};
#define LZ4_DECODER &chunk_decoder_lz4
#else
#define LZ4_DECODER NULL
#endif

/* ---- public functions --------------------------------------------------------------------------- */

static const struct zf_decoder *chunk_decoder(enum zf_zarr_codec codec)
{
    const struct zf_decoder *const decoder[] = {[ZF_ZARR_RAW] = NULL,
                                                [ZF_ZARR_ZLIB] = &chunk_decoder_zlib,
                                                [ZF_ZARR_GZIP] = &chunk_decoder_gzip,
                                                [ZF_ZARR_ZSTD] = ZSTD_DECODER,
                                                [ZF_ZARR_LZ4] = LZ4_DECODER,
                                                [ZF_ZARR_BLOSC] = zarr_blosc};

    return decoder[codec];
}

bool zf_zarr_can(enum zf_zarr_codec codec, struct zf_err *err)
{
    if (codec == ZF_ZARR_BLOSC)
        return zarr_blosc_load(err);
    return codec == ZF_ZARR_RAW || chunk_decoder(codec) ||
           zf_fail(err, ZF_E_UNSUPPORTED, ZF_OFF_NONE,
                   "chunks are compressed with %s, which this zerofs was built without",
                   codec == ZF_ZARR_ZSTD ? "zstd" : "lz4");
}

static struct zf_source *chunk_plain(const struct zf_zarr *z, struct zf_source *file,
                                     const struct zf_limits *lim, struct zf_err *err)
{
    if (!zf_zarr_can(z->codec, err))
        return NULL;
    if (z->codec != ZF_ZARR_RAW)
        return zf_decoded_new(file, z->chunk_bytes, chunk_decoder(z->codec), lim, err);
    if (file->size != z->chunk_bytes) {
        (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                      "the chunk has %" PRIu64 " bytes, expected %" PRIu64, file->size,
                      z->chunk_bytes);
        return zf_null(zf_err_in(err, "%s", file->name));
    }
    return zf_source_ref(file);
}

struct zf_source *zf_zarr_chunk(const struct zf_zarr *z, struct zf_source *file,
                                const struct zf_limits *lim, struct zf_err *err)
{
    const struct zf_dtype_info *t = zf_dtype_info(z->dtype);
    zf_auto(source) struct zf_source *plain = chunk_plain(z, file, lim, err);

    if (!plain || !z->swapped)
        return plain ? zf_source_ref(plain) : NULL;
    return zf_swap_new(plain, t->kind == 'c' ? t->bytes / 2 : t->bytes, err);
}

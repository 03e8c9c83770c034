/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix that lies column by column, turned over into one that lies row by row.  Squares of k x k
 * elements, k of them in 16 bytes, are turned in k of the compiler's own vectors (SSE2, NEON): each
 * is loaded with a column; interleaving every vector of the first half with its like of the second,
 * log2(k) times, leaves a row in each.  What remains at the edges goes element by element, and so
 * does all of it where the compiler cannot shuffle (gcc before 12). */
#include "box.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define VECTOR 16
#define LINE 64

#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define HAVE_SHUFFLE 1
#endif
#endif

/* Interleaves two vectors: their lower halves, and their upper halves. */
#define LOW_8 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_8 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define LOW_16 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_16 4, 12, 5, 13, 6, 14, 7, 15
#define LOW_32 0, 4, 1, 5
#define HIGH_32 2, 6, 3, 7
#define LOW_64 0, 2
#define HIGH_64 1, 3

#ifdef HAVE_SHUFFLE
/* A line that is written whole past the caches need not be read into them first; lines written row by row in turn are
 * put together on the way. */
static inline void turn_store(unsigned char *to, const void *v, bool past)
{
#ifdef __SSE2__
    if (past) {
        _mm_stream_si128((void *)to, _mm_loadu_si128(v));
        return;
    }
#else
    (void)past;
#endif
    memcpy(to, v, VECTOR);
}

/* Loops of constant length, unrolled so that v and w are registers. */
#define TURN_SQUARE(bits)                                                                          \
    static inline void turn_square_##bits(unsigned char *to, size_t to_pitch,                      \
                                          const unsigned char *from, size_t from_pitch, bool past) \
    {                                                                                              \
        enum { K = VECTOR * 8 / bits };                                                            \
        uint##bits##_t __attribute__((vector_size(VECTOR))) v[K], w[K];                            \
                                                                                                   \
        _Pragma("GCC unroll 16") for (size_t i = 0; i < K; i++)                                    \
        {                                                                                          \
            memcpy(&v[i], from + i * from_pitch, VECTOR);                                          \
        }                                                                                          \
        _Pragma("GCC unroll 4") for (size_t done = 1; done < K; done *= 2)                         \
        {                                                                                          \
            _Pragma("GCC unroll 8") for (size_t i = 0; i < K / 2; i++)                             \
            {                                                                                      \
                w[2 * i] = __builtin_shufflevector(v[i], v[i + K / 2], LOW_##bits);                \
                w[2 * i + 1] = __builtin_shufflevector(v[i], v[i + K / 2], HIGH_##bits);           \
            }                                                                                      \
            memcpy(v, w, sizeof v);                                                                \
        }                                                                                          \
        _Pragma("GCC unroll 16") for (size_t i = 0; i < K; i++)                                    \
        {                                                                                          \
            turn_store(to + i * to_pitch, &v[i], past);                                            \
        }                                                                                          \
    }
#define SQUARE(bits) (VECTOR * 8 / (bits))
#else
#define TURN_SQUARE(bits)                                                                          \
    static inline void turn_square_##bits(unsigned char *to, size_t to_pitch,                      \
                                          const unsigned char *from, size_t from_pitch, bool past) \
    {                                                                                              \
        (void)to_pitch, (void)from_pitch, (void)past;                                              \
        memcpy(to, from, bits / 8);                                                                \
    }
#define SQUARE(bits) 1
#endif

#define TURN(bits)                                                                                 \
    TURN_SQUARE(bits)                                                                              \
                                                                                                   \
    static void turn_each_##bits(unsigned char *to, size_t to_pitch, const unsigned char *from,    \
                                 size_t from_pitch, size_t rows, size_t cols)                      \
    {                                                                                              \
        for (size_t r = 0; r < rows; r++)                                                          \
            for (size_t c = 0; c < cols; c++)                                                      \
                memcpy(to + r * to_pitch + c * (bits / 8), from + c * from_pitch + r * (bits / 8), \
                       bits / 8);                                                                  \
    }                                                                                              \
                                                                                                   \
    static inline void turn_all_##bits(const struct turn *t, bool past)                            \
    {                                                                                              \
        unsigned char *to = t->to;                                                                 \
        const unsigned char *from = t->from;                                                       \
        const size_t to_pitch = t->to_pitch, from_pitch = t->from_pitch;                           \
        const size_t rows = t->rows, cols = t->cols;                                               \
                                                                                                   \
        const size_t r_end = rows / SQUARE(bits) * SQUARE(bits);                                   \
        const size_t c_end = cols / SQUARE(bits) * SQUARE(bits);                                   \
                                                                                                   \
        for (size_t r = 0; r < r_end; r += SQUARE(bits))                                           \
            for (size_t c = 0; c < c_end; c += SQUARE(bits))                                       \
                turn_square_##bits(to + r * to_pitch + c * (bits / 8), to_pitch,                   \
                                   from + c * from_pitch + r * (bits / 8), from_pitch, past);      \
        turn_each_##bits(to + c_end * (bits / 8), to_pitch, from + c_end * from_pitch, from_pitch, \
                         r_end, cols - c_end);                                                     \
        turn_each_##bits(to + r_end * to_pitch, to_pitch, from + r_end * (bits / 8), from_pitch,   \
                         rows - r_end, cols);                                                      \
    }

TURN(8)
TURN(16)
TURN(32)
TURN(64)

bool turn_can(uint64_t bytes)
{
    return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

static inline void turn_elements(const struct turn *t, size_t bytes, bool past)
{
    switch (bytes) {
    case 1:
        turn_all_8(t, past);
        break;
    case 2:
        turn_all_16(t, past);
        break;
    case 4:
        turn_all_32(t, past);
        break;
    default:
        turn_all_64(t, past);
    }
}

void turn_matrix(const struct turn *t, size_t bytes)
{
    if (t->past && ((uintptr_t)t->to | t->to_pitch) % LINE == 0) {
        turn_elements(t, bytes, true);
#ifdef __SSE2__
        _mm_sfence();
#endif
    } else {
        turn_elements(t, bytes, false);
    }
}

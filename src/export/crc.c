/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the CRCs of zip members, which a mount shows as 0, for exported files. */

#include <stdlib.h>
#include <string.h>

#include <zf/base/crc.h>
#include <zf/base/fd.h>

#include "export.h"

#define CRC_BYTES 4u

bool crc_init(struct crc_sums *c, struct zf_tree *t, uint64_t ino, struct zf_err *err)
{
    *c = (struct crc_sums){0};
    if (!zf_tree_sums(t, ino, &c->sum, err))
        return false;
    c->of = calloc(c->sum.n ? c->sum.n : 1, sizeof *c->of);
    return c->of || zf_fail_sys(err, "allocate memory");
}

void crc_fini(struct crc_sums *c)
{
    zf_vec_fini(&c->sum);
    free(c->of);
    c->of = NULL;
}

void crc_reset(struct crc_sums *c)
{
    memset(c->of, 0, c->sum.n * sizeof *c->of);
    c->off = 0;
    c->next = c->lifted[0] = c->lifted[1] = 0;
}

void crc_add(struct crc_sums *c, const unsigned char *p, size_t n)
{
    const uint64_t end = c->off + n;

    while (c->off < end && c->next < c->sum.n) {
        const struct zf_sum *s = &c->sum.at[c->next];
        const bool inside = c->off >= s->first;
        const uint64_t stop = inside ? s->first + s->n : s->first;
        const size_t k = (size_t)((stop < end ? stop : end) - c->off);

        if (inside) {
            c->of[c->next].value = zf_crc32(c->of[c->next].value, p, k);
            c->next += stop <= end;
        }
        p += k;
        c->off += k;
    }
    c->off = end;
}

void crc_lift(struct crc_sums *c, unsigned char *theirs, const unsigned char *ours, size_t n,
              uint64_t off)
{
    for (int k = 0; k < 2; k++) {
        for (size_t *i = &c->lifted[k]; *i < c->sum.n; ++*i) {
            const uint64_t at = c->sum.at[*i].at[k];

            for (unsigned b = 0; b < CRC_BYTES; b++) {
                if (at + b >= off && at + b < off + n) {
                    c->of[*i].seen[k] |= (uint32_t)theirs[at + b - off] << 8 * b;
                    theirs[at + b - off] = ours[at + b - off];
                }
            }
            if (at + CRC_BYTES > off + n)
                break;
        }
    }
}

bool crc_are_right(const struct crc_sums *c)
{
    for (size_t i = 0; i < c->sum.n; i++)
        if (c->of[i].seen[0] != c->of[i].value || c->of[i].seen[1] != c->of[i].value)
            return false;
    return true;
}

bool crc_write(const struct crc_sums *c, int fd)
{
    for (size_t i = 0; i < c->sum.n; i++) {
        const uint32_t value = htole32(c->of[i].value);

        for (int k = 0; k < 2; k++)
            if (!zf_fd_pwrite(fd, &value, sizeof value, c->sum.at[i].at[k]))
                return false;
    }
    return true;
}

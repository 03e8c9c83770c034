/* SPDX-License-Identifier: Apache-2.0 */
/* The CRCs that a mount shows as 0 are those of the bytes in an exported file. */
#ifndef EXPORT_CRC_H
#define EXPORT_CRC_H

#include <zf/view.h>

struct crc_state {
    uint32_t value;
    uint32_t seen[2]; /* at its two places in a file that is there already */
};
struct crc_sums {
    zf_sums sum;
    struct crc_state *of; /* [sum.n] */
    uint64_t off;         /* bytes of the file that were added */
    size_t next;          /* the sum that the next one belongs to, or that comes after it */
    size_t lifted[2];     /* sums of which the places are seen */
};

/* Those of a file; most have none.  Errors: ZF_E_NOMEM. */
bool crc_init(struct crc_sums *c, struct zf_tree *t, uint64_t ino, struct zf_err *err) ZF_CHECKED;
void crc_fini(struct crc_sums *c);

/* Begins anew. */
void crc_reset(struct crc_sums *c);
/* The next n bytes of the file; at the places of sums they may be anything. */
void crc_add(struct crc_sums *c, const unsigned char *p, size_t n);
/* Of theirs[n], the bytes at `off` of a file that is there already, notes what is at the places of sums, and puts what
 * ours has there. */
void crc_lift(struct crc_sums *c, unsigned char *theirs, const unsigned char *ours, size_t n,
              uint64_t off);
/* Are those that were noted the sums of the bytes that were added? */
bool crc_are_right(const struct crc_sums *c);
/* Puts the sums into the file, all of whose bytes were added.  False: errno. */
bool crc_write(const struct crc_sums *c, int fd);

#endif

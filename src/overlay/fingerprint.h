/* SPDX-License-Identifier: Apache-2.0 */
/* Has anything below a directory changed? */
#ifndef OVERLAY_FINGERPRINT_H
#define OVERLAY_FINGERPRINT_H

#include <zf/source/store.h>

struct fingerprint {
    uint64_t hash; /* equal while no name, size, modification or change time below it differs */
    uint64_t same; /* the same without the change times, which modes, owners and links move */
    bool far;      /* behind an address */
    bool settled;  /* nothing was changed so lately that one more change could go unseen */
};

/* Looks at every directory below `dir` of the directory `root`, without opening a file.  What
 * cannot be listed counts as its error, so that it changes when it can. */
struct fingerprint fingerprint_take(const struct zf_opener *opener, const char *root,
                                    const char *dir, const struct zf_limits *lim);

#endif

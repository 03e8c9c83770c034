/* SPDX-License-Identifier: Apache-2.0 */
/* How to prefetch bytes that will be read soon (zf/source/want.h). */
#ifndef ZF_BASE_PREFETCH_H
#define ZF_BASE_PREFETCH_H

enum zf_prefetch {
    ZF_PREFETCH_ALL, /* fetch all of them at once: for slow storage */
    /* trigger the kernel's own read-ahead through them: for fast storage, whose read-ahead starts late, and starts small in
     * each new file */
    ZF_PREFETCH_KERNEL,
    ZF_PREFETCH_COMPUTED, /* compute in advance what is computed in large blocks; bytes of files need no prefetch */
    /* the caller reads them next, in several reads: if each of these would wait for a server, request all of them before
     * zf_source_want returns; elsewhere do nothing */
    ZF_PREFETCH_NOW,
};

#endif

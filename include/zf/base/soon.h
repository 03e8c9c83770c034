/* SPDX-License-Identifier: Apache-2.0 */
/* How to prefetch bytes that will be read soon (zf/source/want.h). */
#ifndef ZF_BASE_SOON_H
#define ZF_BASE_SOON_H

enum zf_soon {
    ZF_SOON_ALL, /* fetch all of them at once: for slow storage */
    ZF_SOON_LED, /* trigger the kernel's own read-ahead through them: for fast storage, whose read-ahead starts late, and
                  * starts small in each new file */
    ZF_SOON_MADE, /* compute in advance what is computed in large blocks; bytes of files need no prefetch */
    ZF_SOON_NOW, /* the caller reads them next, in several reads: if each of these would wait for a server, request all
                  * of them before zf_source_want returns; elsewhere do nothing */
};

#endif
